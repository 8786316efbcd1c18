# SPDX-License-Identifier: Apache-2.0
"""tools/tidy.py looks at each source, also where several are compiled as one, and again only when something changed;
at several together first, and at each half of them where that is not clean."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import tidy

# Complains of every source with the letters BAD, and of one that includes such a source; writes each one that it is
# given to a file beside it.
CHECKER = """#!/bin/sh
[ "$1" != --version ] || { echo one; exit; }
for last; do :; done
echo "$last" >> "$(dirname "$0")/seen"
! grep BAD "$last" $(sed -n 's/#include "\\(\\/.*\\)"/\\1/p' "$last")
"""


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for name, text in {
            ".clang-tidy": "",
            "checker": CHECKER,
            "src/a.cpp": '#include "a.hpp"\n',
            "src/a.hpp": "",
            "src/b.cpp": "",
            "src/c.cpp": "",
        }.items():
            self.write(name, text)
        (self.root / "checker").chmod(0o755)
        parts = "".join(f'#include "{self.root}/src/{name}.cpp"\n' for name in "bc")
        unit = self.write("build/Unity/unit.cxx", parts)
        files = (unit, self.root / "src/a.cpp")
        commands = [{"file": str(file), "directory": str(self.root), "command": f"c++ -c {file}"} for file in files]
        self.write("build/compile_commands.json", json.dumps(commands))
        for name, value in (("ROOT", self.root), ("TIDY", self.root / "checker")):
            patch = mock.patch.object(tidy, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_it(self):
        """The exit status, and which sources the checker saw."""
        (self.root / "seen").unlink(missing_ok=True)
        with mock.patch("builtins.print"):
            status = tidy.main([str(self.root / "build")])
        seen = self.root / "seen"
        return status, sorted(Path(line).name for line in seen.read_text().split()) if seen.exists() else []

    def test_only_what_changed(self):
        self.assertEqual(self.run_it(), (0, ["unit_0.cpp"]))
        self.assertEqual(self.run_it(), (0, []))
        self.write("src/c.cpp", "int c;\n")
        self.assertEqual(self.run_it(), (0, ["c.cpp"]))
        self.write("src/a.hpp", "int a;\n")
        self.assertEqual(self.run_it(), (0, ["a.cpp"]))
        self.write(".clang-tidy", "Checks: more\n")
        self.assertEqual(self.run_it(), (0, ["unit_0.cpp"]))

    def test_what_was_not_clean_is_looked_at_again(self):
        self.write("src/b.cpp", "BAD\n")
        self.assertEqual(self.run_it(), (1, ["a.cpp", "b.cpp", "c.cpp", "unit_0.cpp", "unit_0.cpp"]))
        self.assertEqual(self.run_it(), (1, ["b.cpp"]))

    def test_those_that_are_clean_together_are_not_looked_at_by_themselves(self):
        names = [f"n{number:02}" for number in range(16)]
        unit = self.write("build/Unity/unit.cxx", "".join(f'#include "{self.root}/src/{n}.cpp"\n' for n in names))
        for name in names:
            self.write(f"src/{name}.cpp", "BAD\n" if name == "n05" else "")
        command = {"file": str(unit), "directory": str(self.root), "command": f"c++ -c {unit}"}
        self.write("build/compile_commands.json", json.dumps([command]))
        self.assertEqual(self.run_it(), (1, ["n04.cpp", "n05.cpp", *["unit_0.cpp"] * 7]))
        self.assertEqual(self.run_it(), (1, ["n05.cpp"]))

    def test_only_sources_with_one_command_are_looked_at_together(self):
        commands = json.loads((self.root / "build/compile_commands.json").read_text())
        commands[1]["command"] = commands[1]["command"].replace("c++", "c++ -DA")
        self.write("build/compile_commands.json", json.dumps(commands))
        self.assertEqual(self.run_it(), (0, ["a.cpp", "unit_0.cpp"]))
        unit = (self.root / "build/tidy/unit_0.cpp").read_text()
        self.assertEqual(unit, "".join(f'#include "{self.root}/src/{name}.cpp"\n' for name in "bc"))


if __name__ == "__main__":
    unittest.main()
