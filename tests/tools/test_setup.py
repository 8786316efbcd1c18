# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh names what is missing, as the system's own package manager has it, to who may not install it."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "tools/packages.txt").read_text(encoding="utf-8")
ROWS = [line.split() for line in TABLE.splitlines() if line and not line.startswith("#")]
# What the script itself runs; the rest of the system's commands are not here.
OWN = ("bash", "env", "dirname", "mkdir", "uname", "awk", "sed", "tail", "tr")
ANSWERS = {"go": "go1.99"}  # new enough that none is fetched
BUILD = ("g++", "cmake", "ninja", "make", "pkg-config", "python3")


class Setup(unittest.TestCase):
    def setup(self, what, *tools, user=1000):
        """How setup.sh ends and what it says where there are these tools only, which do nothing."""
        with tempfile.TemporaryDirectory() as folder:
            for tool in OWN:
                (Path(folder) / tool).symlink_to(shutil.which(tool))
            for tool in (*tools, "id"):
                answer = user if tool == "id" else ANSWERS.get(tool, "")
                (Path(folder) / tool).write_text(f"#!/bin/sh\necho {answer}\n")
                (Path(folder) / tool).chmod(0o755)
            done = subprocess.run(["bash", ROOT / "tools/setup.sh", what], env=os.environ | {"PATH": folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout

    def test_the_command_is_the_systems(self):
        for manager, command in (
            ("dnf", "dnf install gcc-c++ ninja-build pkgconf-pkg-config"),
            ("pacman", "pacman -S --needed gcc ninja pkgconf"),
            ("zypper", "zypper install gcc-c++ ninja pkg-config"),
        ):
            status, said = self.setup("build", manager, "cmake", "make", "python3", user=0)
            self.assertIn(command, said)
            self.assertEqual((status, said.count("\n")), (1, 1), said)

    def test_without_root_it_says_so_at_once(self):
        status, said = self.setup("build", "apt-get", "cmake", "make", "python3")
        self.assertIn("needs packages that only root can install; as root: apt-get install g++ ninja-build", said)
        self.assertEqual((status, said.count("\n")), (1, 1), said)

    def test_with_sudo_it_says_what_for(self):
        _, said = self.setup("build", "apt-get", "sudo", "cmake", "make", "python3")
        self.assertRegex(said, "^setup: installing g.*; you are not root, so sudo may ask for your password\n")

    def test_without_languages_it_goes_on(self):
        status, said = self.setup("demo", "dnf", "pip3", "python3-config", "go", *BUILD)
        self.assertIn("some languages and checks will be skipped; for all of them, as root: dnf install cargo ", said)
        self.assertNotIn("only root", said)
        self.assertEqual(status, 0, said)

    def test_each_package_has_its_row(self):
        script = (ROOT / "tools/setup.sh").read_text(encoding="utf-8")
        part = script[script.index("need_build() {") : script.index("need_checkers() {")]
        self.assertEqual(re.findall(r"^  (?:need|want) (\S+)", part, re.MULTILINE), [row[0] for row in ROWS])
        self.assertEqual({len(row) for row in ROWS}, {4})

    def test_the_page_names_them(self):
        page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
        build = ROWS[: [row[0] for row in ROWS].index("python3-venv")]
        for column, command in ((0, "apt-get install"), (1, "dnf install"), (2, "pacman -S"), (3, "zypper install")):
            names = re.search(rf"{command}((?: [^\s`]+| \\\n)+)", page)[1].replace("\\\n", " ").split()
            self.assertEqual(sorted(names), sorted({row[column] for row in build}), command)


if __name__ == "__main__":
    unittest.main()
