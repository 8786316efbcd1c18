# SPDX-License-Identifier: Apache-2.0
"""check_pages sees what a page names and links to, and which of that is not there."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_pages

FILES = {
    "Makefile": "demo: setup\n\t@tools/demo.sh\n",
    "include/gpupool/gpupool.h": "GPUPOOL_API int gpupool_trim(void);\n#define GPUPOOL_LIMIT 1\n",
    "src/pool/pool.cpp": "int Pool::malloc() {}",
    "src/pool/memory/growth.cpp": "Status Growth::run() { return kMaxPieces; }",
    "src/pool/memory/growth.hpp": "class Growth;",
    "tests/pool/contract_test.cpp": "TEST(Limits, Hold) {}",
    "docs/other.md": "# Other\n\n```\n# No heading\n```\n\n## What it `costs`, and why\n",
}


class Pages(unittest.TestCase):
    def missing(self, text, page="docs/page.md"):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, content in (FILES | {page: text}).items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            count, wrong = check_pages.missing(check_pages.Tree(root, [*FILES, page]), page)
            return count, [name for _, name in wrong]

    def test_what_is_there(self):
        for name in (
            "src/pool/memory/growth.cpp", "pool/memory/growth.cpp", "pool/*.cpp", "growth.cpp", "grow*.hpp", "other.md",
            "src/pool/", "src/pool/memory/growth.{cpp,hpp}", "tests/pool", "Growth::run", "Growth::run()",
            "Limits.Hold", "gpupool_trim", "gpupool_trim()", "GPUPOOL_LIMIT", "kMaxPieces", "run()", "make demo",
        ):  # fmt: skip
            self.assertEqual(self.missing(f"See `{name}`."), (1, []), name)

    def test_what_is_not(self):
        for name in (
            "pool/growth.cpp", "src/pool/growth.hpp", "grow.cpp", "driver.hpp", "src/pole/", "src/none",
            "src/pool/memory/growth.{cpp,h}", "Growth::walk", "Pool::run", "Limits.Held", "gpupool_trims",
            "GPUPOOL_LIMT", "kMaxParts", "walk()", "make demos",
        ):  # fmt: skip
            self.assertEqual(self.missing(f"See `{name}`."), (1, [name]), name)

    def test_links(self):
        for link in ("other.md", "../src/pool", "other.md#what-it-costs-and-why", "#here", "../Makefile#L1"):
            self.assertEqual(self.missing(f"# Here\n[x]({link})"), (1, []), link)
        for link in ("none.md", "other.md#no-heading", "other.md#what", "#there"):
            self.assertEqual(self.missing(f"# Here\n[x]({link})"), (1, [link]), link)

    def test_what_names_nothing(self):
        for text in (
            "`std::vector`", "`packaging/NAME/try.sh`", "`bindings/go/vX.Y.Z`", "`malloc`", "`a / b`", "[x](https://x.y)",
            "```\nsee `x/y.cpp`\n```\n",
        ):  # fmt: skip
            self.assertEqual(self.missing(text), (0, []), text)

    def test_files_of_a_folder(self):
        every = "Every file of `src/pool`, by room.\n"
        self.assertEqual(self.missing(every + "`memory/growth`, `memory/grow`"), (3, ["memory/grow"]))
        self.assertEqual(self.missing("`memory/grow`"), (0, []))

    def test_of_a_diary_only_links_are_checked(self):
        for page in ("docs/lab/old.md", "CHANGELOG.md"):
            self.assertEqual(self.missing("`pool/gone.cpp` [x](gone.md)", page), (1, ["gone.md"]), page)

    def test_lines_are_counted_past_blocks_of_code(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "page.md").write_text("```\none\n```\n`x/y.cpp`\n")
            tree = check_pages.Tree(Path(folder), ["page.md"])
            self.assertEqual(check_pages.missing(tree, "page.md"), (1, [(4, "x/y.cpp")]))


if __name__ == "__main__":
    unittest.main()
