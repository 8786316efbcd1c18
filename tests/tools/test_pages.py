# SPDX-License-Identifier: Apache-2.0
"""The pages of the sources: which there are, how long they are, and whether they name every file. What they name is
there: tools/check_pages.py."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def lines_of(page):
    return (ROOT / page).read_text(encoding="utf-8").count("\n")


class Pages(unittest.TestCase):
    def test_each_folder_of_src_has_one(self):
        folders = [path for path in (*(ROOT / "src").iterdir(), *(ROOT / "src/cli").iterdir()) if path.is_dir()]
        self.assertGreater(len(folders), 16)
        self.assertEqual([path.name for path in folders if not (path / "README.md").is_file()], [])

    def test_they_are_short(self):
        most = dict.fromkeys((ROOT / "src").glob("**/README.md"), 25)
        most |= {ROOT / "src/pool/README.md": 35, ROOT / "docs/architecture.md": 150, ROOT / "README.md": 80}
        self.assertEqual([str(page) for page in most if lines_of(page) > most[page]], [])

    def test_the_index_has_every_page(self):
        index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
        pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
        self.assertGreater(len(pages), 15)
        self.assertEqual([name for name in pages if f"]({name})" not in index], [])

    def test_a_page_of_every_file_has_every_file(self):
        for name, folder in (("rooms.md", "src/pool"), ("command.md", "src/cli")):
            text = (ROOT / "docs/inside" / name).read_text(encoding="utf-8")
            self.assertIn(f"Every file of `{folder}`", text)
            files = [path.relative_to(ROOT / folder).with_suffix("") for path in (ROOT / folder).rglob("*.?pp")]
            self.assertGreater(len(files), 50)
            # In a list, the room is named once: `memory/protections`, `blocks`.
            named = {word for words in re.findall(r"`([^`]+)`", text) for word in re.split(r"[{},]|/(?={)", words)}
            absent = {str(path) for path in files if not {str(path), path.name} & named}
            self.assertEqual(absent, set(), f"{name} does not say what these of {folder} are for")


if __name__ == "__main__":
    unittest.main()
