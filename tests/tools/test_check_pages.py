# SPDX-License-Identifier: Apache-2.0
"""check_pages sees which files and functions a page names, and which of them are not there."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_pages


class Pages(unittest.TestCase):
    def missing(self, text):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src/pool").mkdir(parents=True)
            (root / "src/pool/growth.cpp").write_text("Status Growth::run() {}")
            (root / "docs").mkdir()
            (root / "docs/page.md").write_text(text)
            count, wrong = check_pages.missing(root, "docs/page.md", check_pages.words_of(root))
            return count, [name for _, name in wrong]

    def test_what_is_there(self):
        for name in ("src/pool/growth.cpp", "pool/growth.cpp", "pool/*.cpp", "Growth::run", "Growth::run()"):
            self.assertEqual(self.missing(f"See `{name}`."), (1, []), name)

    def test_what_is_not(self):
        for name in ("pool/grow.cpp", "src/pool/growth.hpp", "Growth::walk", "Pool::run"):
            self.assertEqual(self.missing(f"See `{name}`."), (1, [name]), name)

    def test_what_names_nothing(self):
        for text in ("`std::vector`", "`packaging/NAME/try.sh`", "`malloc`", "`a / b`", "```\nsee `x/y.cpp`\n```\n"):
            self.assertEqual(self.missing(text), (0, []), text)

    def test_lines_are_counted_past_blocks_of_code(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "page.md").write_text("```\none\n```\n`x/y.cpp`\n")
            self.assertEqual(check_pages.missing(Path(folder), "page.md", set()), (1, [(4, "x/y.cpp")]))


if __name__ == "__main__":
    unittest.main()
