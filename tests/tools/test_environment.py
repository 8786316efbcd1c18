# SPDX-License-Identifier: Apache-2.0
"""The library knows the name of each variable that something here reads, and docs/environment.md has a row for each."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READS = re.compile(
    r"""(?:getenv|environment|variable|read_switch|read_bytes|environ\.get|env::var(?:_os)?)\(\s*["'](GPUPOOL_[A-Z_]+)["']"""
    r"""|environ\[["'](GPUPOOL_[A-Z_]+)["']\]|process\.env\.(GPUPOOL_[A-Z_]+)"""
)
READERS = ("src", "bindings", "examples")
KINDS = {".c", ".cpp", ".h", ".hpp", ".py", ".rs", ".go", ".js"}
OTHERS = {"tests", "test", "bench", "node_modules", "target"}  # folders


def known():
    """The names in the library's list."""
    text = (ROOT / "src/base/environment.cpp").read_text(encoding="utf-8")
    (names,) = re.findall(r"kNames\[\] = \{(.*?)\};", text, re.DOTALL)
    return re.findall(r'"(GPUPOOL_\w+)"', names)


def read_by(text):
    return {name for found in READS.findall(text) for name in found if name}


class Environment(unittest.TestCase):
    def test_what_counts_as_reading(self):
        self.assertEqual(
            read_by('getenv("GPUPOOL_A") os.environ["GPUPOOL_B"] process.env.GPUPOOL_C'),
            {"GPUPOOL_A", "GPUPOOL_B", "GPUPOOL_C"},
        )
        self.assertEqual(
            read_by('std::getenv(\n      "GPUPOOL_A"), environ.get("GPUPOOL_B", "")'), {"GPUPOOL_A", "GPUPOOL_B"}
        )
        self.assertEqual(read_by("GPUPOOL_A GPUPOOL_LOG_OFF"), set())

    def test_what_is_read_is_known(self):
        files = [path for folder in READERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
        read = {}
        for path in files:
            if not OTHERS.intersection(path.relative_to(ROOT).parts) and not path.name.endswith("_test.go"):
                for variable in read_by(path.read_text(encoding="utf-8")):
                    read.setdefault(variable, path.name)
        self.assertGreater(len(read), 20)
        of_examples = {"GPUPOOL_EXAMPLE"}
        self.assertEqual({name: at for name, at in read.items() if name not in {*known(), *of_examples}}, {})

    def test_the_page_has_a_row_for_each(self):
        page = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"^\| `(GPUPOOL_\w+)` \|", page, re.MULTILINE), known())
        self.assertEqual(known(), sorted(known()))


if __name__ == "__main__":
    unittest.main()
