# SPDX-License-Identifier: Apache-2.0
"""Everything that names a version of the library names that of the header."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_exports
import check_words

# A version in these places is the library's own, all of it or its first two numbers.
PLACES = (
    r"libgpupool\.so\.(\d[\d.]*\d|\d)",
    r"gpupool-(\d+\.\d+\.\d+)",
    r"org\.gpupool:gpupool:(\d[\d.]*\d)",
    r"libgpupool(\d+\.\d+)_",
    r"find_package\(gpupool (\d[\d.]*\d)",
    r"^Version (\d+\.\d+), for 64-bit Linux",
)
# Where other versions are meant: how the soname is made, and what the tests of that make up.
LEFT_OUT = {"tools/check_exports.py", "tests/tools/test_check_exports.py", "tests/tools/test_versions.py"}


def version():
    text = (ROOT / "include/gpupool/gpupool.h").read_text()
    return ".".join(re.search(rf"_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def named_in(text):
    return [found for place in PLACES for found in re.findall(place, text, re.MULTILINE)]


class Versions(unittest.TestCase):
    def test_all_that_is_named(self):
        whole = version()
        soname = check_exports.soname_of(whole).removeprefix("libgpupool.so.")
        count = 0
        for path in check_words.files_of(ROOT):
            if str(path.relative_to(ROOT)) in LEFT_OUT:
                continue
            for name in named_in(path.read_text(encoding="utf-8")):
                count += 1
                self.assertIn(name, {soname, whole, whole.rpartition(".")[0]}, path)
        self.assertGreater(count, 5)

    def test_names_are_found(self):
        text = "libgpupool.so.0, libgpupool.so.0.1.\nfind_package(gpupool 0.3)\nVersion 0.4, for 64-bit Linux.\n"
        self.assertEqual(named_in(text), ["0", "0.1", "0.3", "0.4"])


if __name__ == "__main__":
    unittest.main()
