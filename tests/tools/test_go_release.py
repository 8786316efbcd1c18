# SPDX-License-Identifier: Apache-2.0
"""A release of the Go module has the C library's sources in it, all and unchanged, and a tag that Go takes."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging/go"))

import amalgamate


def parts_of(text):
    """What stands between includes of the project's own files, which are replaced."""
    return re.split(r'^(?:#include (?:"|<gpupool/).*|#pragma once)$', text, flags=re.MULTILINE)


class Amalgamation(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / amalgamate.NATIVE).mkdir(parents=True)
        amalgamate.release(self.folder)
        self.text = (self.folder / amalgamate.NATIVE / "gpupool_library.cpp").read_text(encoding="utf-8")

    def test_every_source_is_there_once_and_unchanged(self):
        chapters = re.findall(r"^// ---- ((?:src|include)/\S+)$", self.text, re.MULTILINE)
        self.assertEqual(len(chapters), len(set(chapters)))
        for layer in amalgamate.LAYERS:
            for path in (ROOT / "src" / layer).rglob("*.[ch]pp"):
                name = str(path.relative_to(ROOT))
                if path.suffix == ".cpp":
                    self.assertIn(name, chapters)
                if name in chapters:
                    for part in parts_of(path.read_text(encoding="utf-8")):
                        self.assertTrue(part.strip() in self.text, name)

    def test_nothing_leads_out_of_it(self):
        self.assertEqual(re.findall(r'^#include (?:"|<gpupool/).*', self.text, re.MULTILINE), [])

    @unittest.skipUnless(shutil.which("c++"), "needs a C++ compiler")
    def test_its_sources_bear_one_another(self):
        """As one file they share what each has for itself: names in namespaces without a name."""
        for file in (self.folder / amalgamate.NATIVE).iterdir():
            if file.suffix == ".cpp":
                command = ["c++", "-std=c++20", "-fsyntax-only", file]
                compiled = subprocess.run(command, check=False, capture_output=True, text=True)
                self.assertEqual(compiled.returncode, 0, compiled.stderr[:2000])

    def test_a_stale_list_is_noticed(self):
        path = ROOT / "bindings/go" / amalgamate.NATIVE / "gpupool_library.cpp"
        listed = re.findall(r'^#include "\.\./\.\./\.\./\.\./(\S+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(amalgamate.main(["--check"]), 0)
        lines = amalgamate.LINES["gpupool_library.cpp"][1]
        self.assertEqual(set(listed), {line for line in lines if not line.startswith("#")})


@unittest.skipUnless(shutil.which("go") and (ROOT / ".git").exists(), "needs Go and a checkout")
class Tag(unittest.TestCase):
    def test_go_gets_the_module_by_its_tag(self):
        with tempfile.TemporaryDirectory() as folder:
            clone, work = f"{folder}/clone", Path(folder, "work")
            work.mkdir()
            environment = {
                "PATH": os.environ["PATH"], "HOME": folder, "GOPATH": f"{folder}/go", "GOFLAGS": "-modcacherw -mod=mod",
                "GOPROXY": "direct", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": f"url.{clone}.insteadOf",
                "GIT_CONFIG_VALUE_0": "https://github.com/gpupool/gpupool",
                "GIT_CONFIG_KEY_1": "safe.directory", "GIT_CONFIG_VALUE_1": "*",
                "EMAIL": "a@example.org",
            }  # fmt: skip

            def run(*command, cwd=work):
                done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            run("git", "clone", "-q", str(ROOT), clone)
            head = run("git", "rev-parse", "HEAD", cwd=clone)
            tag = run("packaging/go/tag.sh", cwd=clone).strip()
            self.assertRegex(tag, r"^bindings/go/v\d+\.\d+\.\d+$")
            self.assertEqual(run("git", "rev-parse", "HEAD", cwd=clone), head)
            self.assertEqual(run("git", "status", "--porcelain", cwd=clone), "")
            module = "github.com/gpupool/gpupool/bindings/go"
            run("go", "mod", "init", "program")
            run("go", "get", f"{module}@{tag.rpartition('/')[2]}")
            found = Path(run("go", "list", "-m", "-f", "{{.Dir}}", module).strip())
            self.assertGreater((found / amalgamate.NATIVE / "gpupool_library.cpp").stat().st_size, 300_000)
            self.assertTrue((found / "LICENSE").exists())


if __name__ == "__main__":
    unittest.main()
