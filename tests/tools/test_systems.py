# SPDX-License-Identifier: Apache-2.0
"""The ends of names that say which systems a source is for mean the same to all who compile the sources."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging/go"))

import amalgamate

# Which ends of names CMake leaves out on Windows, macOS and Linux, in the order of cmake/system.cmake.
LEFT_OUT = [{"linux", "macos", "posix"}, {"linux", "windows"}, {"macos", "windows", "elsewhere"}]


class Systems(unittest.TestCase):
    def test_cmake_knows_them(self):
        text = (ROOT / "cmake/system.cmake").read_text(encoding="utf-8")
        found = [set(ends.split("|")) for ends in re.findall(r"set\(other_systems ([a-z|]+)\)", text)]
        self.assertEqual(found, LEFT_OUT)
        self.assertEqual(set().union(*found), set(amalgamate.SYSTEMS))

    def test_rust_knows_them(self):
        text = (ROOT / "bindings/rust/gpupool-sys/build.rs").read_text(encoding="utf-8")
        body = text[text.index("fn is_for(") :]
        body = body[: body.index("\n}\n")]
        self.assertEqual(set(re.findall(r'"([a-z]+)"', body)), set(amalgamate.SYSTEMS))

    def test_each_is_in_the_go_library_behind_its_condition(self):
        lines = amalgamate.library_lines()
        for path in (ROOT / "src").rglob("*.cpp"):
            end = amalgamate.system_of(path)
            name = str(path.relative_to(ROOT))
            if end not in amalgamate.SYSTEMS or name.startswith(("src/cli/", "src/frameworks/")):
                continue
            opened = [line for line in lines[: lines.index(name)] if line.startswith("#")][-1]
            self.assertEqual(opened, f"#if {amalgamate.SYSTEMS[end]}", name)


if __name__ == "__main__":
    unittest.main()
