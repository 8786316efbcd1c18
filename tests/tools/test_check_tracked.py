# SPDX-License-Identifier: Apache-2.0
"""check_tracked sees files that programs left when they crashed, under the project's own .gitignore."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_tracked


class Tracked(unittest.TestCase):
    def strays(self, *names):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(ROOT / ".gitignore", folder)
            for name in names:
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")
            subprocess.run(["git", "init", "-q", folder], check=True)
            subprocess.run(["git", "-C", folder, "add", "--force", "."], check=True)
            return check_tracked.strays(folder)

    def test_left_by_a_crash(self):
        for name in ("mono_crash.6abd73e32.0.json", "tests/core.1234", "core", "vgcore.7", "bindings/hs_err_pid12.log"):
            self.assertEqual(self.strays(name), [name])

    def test_built(self):
        self.assertEqual(self.strays("build/a.o", "tools/__pycache__/a.pyc"), ["build/a.o", "tools/__pycache__/a.pyc"])

    def test_sources(self):
        self.assertEqual(self.strays("src/core/heap.cpp", "tests/core/heap_test.cpp", "core.md"), [])


if __name__ == "__main__":
    unittest.main()
