# SPDX-License-Identifier: Apache-2.0
"""Everything that names a version of the library names that of the header."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_exports

# A version in these places is the library's own, all of it or its first two numbers.
NUMBER = r"(\d+(?:\.\d+)*)(?![\w*])"
PLACES = (
    rf"libgpupool[\w-]*\.so\.{NUMBER}",
    rf"find_package\(gpupool {NUMBER}",
    r"^Version (\d+\.\d+), for 64-bit Linux",
    rf"(?<!find_package\()\bgpupool[-_ ](?:version[ =]+)?v?{NUMBER}(?<=\d\.\d)",  # gpupool-0.1, "gpupool 0.1.0"
    rf"bindings/go@v{NUMBER}",
    rf'^name = "gpupool[\w-]*"\nversion = "{NUMBER}"',
)
# Where other versions are meant: how the soname is made, what the tests of that make up, and what was.
TESTS = ("check_exports", "release", "versions")
LEFT_OUT = {"tools/check_exports.py", "CHANGELOG.md", "docs/bench/table.md"} | {
    f"tests/tools/test_{name}.py" for name in TESTS
}


def version():
    text = (ROOT / "include/gpupool/gpupool.h").read_text()
    return ".".join(re.search(rf"_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def files_of(root):
    """Every text of the tree, of whatever kind; what git does not know yet included."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"):
        path = root / name
        if name and name not in LEFT_OUT and path.is_file() and b"\0" not in path.read_bytes()[:8000]:
            yield path


def named_in(text):
    return [found for place in PLACES for found in re.findall(place, text, re.MULTILINE)]


def wrong_in(root, whole):
    """(file, version) of each that is named and not the current one, and how many are named."""
    soname = check_exports.soname_of(whole).removeprefix("libgpupool.so.")
    named = [
        (str(path.relative_to(root)), name)
        for path in files_of(root)
        for name in named_in(path.read_text(encoding="utf-8"))
    ]
    good = {soname, whole, whole.rpartition(".")[0]}
    return [each for each in named if each[1] not in good], len(named)


class Versions(unittest.TestCase):
    def test_all_that_is_named(self):
        wrong, count = wrong_in(ROOT, version())
        self.assertEqual(wrong, [])
        self.assertGreater(count, 10)

    def test_files_of_any_kind_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            (root / "examples").mkdir()
            (root / "examples/load.anything").write_text('open("libgpupool.so.0.1")\n')
            (root / "image").write_bytes(b"\0libgpupool.so.0.1")
            self.assertEqual(wrong_in(root, "0.2.0"), ([("examples/load.anything", "0.1")], 1))
            self.assertEqual(wrong_in(root, "0.1.7"), ([], 1))

    def test_names_are_found(self):
        text = (
            "libgpupool.so.0, libgpupool.so.0.1.\nfind_package(gpupool 0.3)\nVersion 0.4, for 64-bit Linux.\n"
            'gpupool-0.5.0.tar, gpupool 0.6.\nname = "gpupool"\nversion = "0.7.1"\ngpupool 3 times\n'
        )
        self.assertEqual(named_in(text), ["0", "0.1", "0.3", "0.4", "0.5.0", "0.6", "0.7.1"])


if __name__ == "__main__":
    unittest.main()
