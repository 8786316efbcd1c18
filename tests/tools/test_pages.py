# SPDX-License-Identifier: Apache-2.0
"""What pages for people name is there: files that they link to, and paths that stand in backticks."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
PATH = re.compile(r"`((?:src|include|tests|tools|docs|bindings|examples|cmake)/[\w./*{},-]+)`")
# It tells of what was.
LEFT_OUT = {"CHANGELOG.md"}
# Looks like a path: the git tag of a release of the Go module.
GO_TAG = "bindings/go/vX.Y.Z"


def pages():
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [ROOT / name for name in names if name not in LEFT_OUT and (ROOT / name).is_file()]


def expand(text):
    """The paths that `a/{b,c}.cpp` stands for."""
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    return [one for part in match.group(1).split(",") for one in expand(text.replace(match.group(), part, 1))]


def is_there(page, name):
    """In the repository, or in the page's own folder. NAME and X.Y.Z stand for any."""
    if name == GO_TAG:
        return True
    name = re.sub(r"\bNAME\b|\bX\.Y\.Z\b", "*", name)
    return any(any(folder.glob(name.rstrip("/."))) for folder in (ROOT, page.parent))


def missing_in(page, text):
    """Links and paths in the text of a page that lead nowhere."""
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    return missing + [path for whole in PATH.findall(text) for path in expand(whole) if not is_there(page, path)]


class Pages(unittest.TestCase):
    def test_all_that_is_named(self):
        found = pages()
        self.assertGreater(len(found), 15)
        for page in found:
            with self.subTest(page=str(page.relative_to(ROOT))):
                self.assertEqual(missing_in(page, page.read_text(encoding="utf-8")), [])

    def test_each_folder_of_src_has_one(self):
        folders = [path for path in (*(ROOT / "src").iterdir(), *(ROOT / "src/cli").iterdir()) if path.is_dir()]
        self.assertGreater(len(folders), 16)
        self.assertEqual([path.name for path in folders if not (path / "README.md").is_file()], [])

    def test_they_are_short(self):
        most = {ROOT / "docs/architecture.md": 150, **dict.fromkeys(ROOT.glob("src/**/README.md"), 25)}
        lines = {page: page.read_text(encoding="utf-8").count("\n") for page in most}
        self.assertEqual([str(page) for page in most if lines[page] > most[page]], [])

    def test_a_page_of_every_file_has_every_file(self):
        listing = 0
        for page in pages():
            text = page.read_text(encoding="utf-8")
            for folder in re.findall(r"^Every file of `(src/\w+)`", text, re.MULTILINE):
                listing += 1
                files = [path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.?pp")]
                sources = {str(path.with_suffix("")) for path in files}
                self.assertGreater(len(sources), 50)
                named = {one for whole in re.findall(r"`([\w/{},]+)`", text) for one in expand(whole)}
                self.assertEqual(sources - named, set(), f"{page.name} does not say what these of {folder} are for")
        self.assertEqual(listing, 2)

    def test_what_is_missing_is_found(self):
        page = ROOT / "docs/architecture.md"
        self.assertEqual(missing_in(page, "[a](abi.md) [b](none.md#x) [c](https://x.y) `docs/abi.md`"), ["none.md"])
        text = "`src/pool/pool.cpp` `src/pool/none.cpp` `src/core/*.hpp` `tests/{core,none}/heap_test.cpp`"
        self.assertEqual(missing_in(page, text), ["src/pool/none.cpp", "tests/none/heap_test.cpp"])


if __name__ == "__main__":
    unittest.main()
