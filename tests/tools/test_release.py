# SPDX-License-Identifier: Apache-2.0
"""tools/release.py writes a version wherever one is named, and refuses what makes no release."""

import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(Path(__file__).parent)]

import release
from test_versions import named_in

NODE = re.compile(r"^(GPUPOOL_[\d.]+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)


def functions_by_node(text):
    return {
        (node, name)
        for node, names in NODE.findall(text)
        for name in re.findall(r"^ +(gpupool_\w+);", names, re.MULTILINE)
    }


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in (release.HEADER, release.MAP, "CHANGELOG.md", *release.WHOLE, *release.MINOR):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        shutil.copytree(ROOT / release.RELEASED, self.root / release.RELEASED)
        (self.root / "CHANGELOG.md").write_text("# Changes\n\n## 7.8.9, not yet released\n\n## 0.1.0\n")

    def refuses(self, version, words):
        with self.assertRaisesRegex(release.Refused, words):
            release.changes(self.root, version, "2030-01-02")

    def test_every_place(self):
        texts = release.changes(self.root, (7, 8, 9), "2030-01-02")
        self.assertIn("## 7.8.9, 2030-01-02\n", texts["CHANGELOG.md"])
        self.assertEqual(release.version_of(texts[release.HEADER]), (7, 8, 9))
        for name in release.MINOR:
            if name != "docs/abi.md" and "libgpupool" in texts[name]:
                self.assertNotIn("libgpupool.so.0", texts[name], name)
        installed = "tests/install/find_package/CMakeLists.txt"
        for name in ("README.md", "docs/install.md", "examples/c/dlopen.c", installed):
            self.assertEqual(set(named_in(texts[name])), {"7.8"}, name)
        self.assertEqual(texts["bindings/rust/Cargo.lock"].count('version = "7.8.9"'), 2)
        self.assertIn('"7.8.0".."7.9.0"', texts["bindings/rust/gpupool-sys/build.rs"])

    def test_what_makes_no_release(self):
        self.refuses((0, 1, 0), "^0.1.0 is not above the last release, ")
        self.refuses((0, 1, 5), "^0.1.5 is below the header's version, ")
        self.refuses((7, 8, 8), "^CHANGELOG.md has no section `## 7.8.8, not yet released`$")
        (self.root / "examples/c/dlopen.c").write_text("")
        self.refuses((7, 8, 9), "^examples/c/dlopen.c does not name ")

    def test_kept(self):
        release.keep(self.root, (7, 8, 9))
        kept = self.root / release.RELEASED / "7.8.9"
        self.assertEqual((kept / "gpupool/gpupool.h").read_text(), (ROOT / release.HEADER).read_text())
        self.assertEqual((kept / "gpupool.map").read_text(), (ROOT / release.MAP).read_text())

    def test_no_function_of_a_release_is_gone(self):
        now = functions_by_node((ROOT / release.MAP).read_text())
        for folder in (ROOT / release.RELEASED).iterdir():
            then = functions_by_node((folder / "gpupool.map").read_text())
            # In 0.2, with its own soname, these moved to libgpupool_torch.
            then = {(node, name) for node, name in then if not name.startswith("gpupool_torch_")}
            self.assertGreater(len(then), 30)
            self.assertEqual(then - now, set(), folder.name)


if __name__ == "__main__":
    unittest.main()
