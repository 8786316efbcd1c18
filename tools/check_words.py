#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no file uses a word that docs/words.md keeps out, in text, comments or names.

    tools/check_words.py [--write] [ROOT]

The words of a phrase may be apart by spaces, by an underscore, by a line's end with the leader of a comment, or be in
CamelCase. --write replaces what is found; text that is derived from the header must be generated again afterwards.
"""

import re
import sys
from pathlib import Path

PAGE = "docs/words.md"
FOLDERS = ("src", "include", "docs", "tests", "bindings", "examples", "tools", "cmake")
SUFFIXES = set("""
    .c .cpp .cs .go .h .hpp .i .in .java .js .json .lua .map .md .py .pyi .rb .rs .sh .swg .toml .txt .cmake .yml .yaml
""".split())
# Where the words stand to be found, and what others wrote or derived.
LEFT_OUT = {PAGE, "tests/tools/test_check_words.py"}
RELEASED = "tests/abi/released"  # words of their day
BUILT = {"target", "node_modules", "build", "__pycache__", ".venv"}
ROW = re.compile(r"\| `([a-z ]+)` \| `([a-z ]+)` \|")
GAP = r"(?:_|[ \t]+|[ \t]*\n[ \t]*(?:(?://[/!]?|\*|#|--)[ \t]*)?)"


class Phrase:
    """A phrase that is not used, and what is written instead."""

    def __init__(self, words, instead):
        self.words, self.instead = words, instead
        parts = words.split(" ")
        self.plain = re.compile(rf"(?<![A-Za-z]){GAP.join(parts)}(?![A-Za-z])", re.IGNORECASE)
        self.camel = re.compile("".join(map(str.capitalize, parts)) + "(?![a-z])")

    def find(self, text):
        """Where the phrase begins, each time."""
        found = [*self.plain.finditer(text), *self.camel.finditer(text)]
        return sorted(match.start() for match in found)

    def replace(self, text):
        """The text with the other phrase: in the place of the first word, as large, with the same gaps."""
        words = self.instead.split(" ")

        def plain(match):
            gaps = re.findall(GAP, match.group())
            joined = words[0]
            for index, word in enumerate(words[1:]):
                joined += (gaps[index] if index < len(gaps) else " ") + word
            left = gaps[len(words) - 1 :]  # a line's end must not go
            tail = "".join(gap.rstrip(" \t") for gap in left if "\n" in gap)
            first = joined[0].upper() if match.group()[0].isupper() else joined[0]
            return first + joined[1:] + tail

        text = self.plain.sub(plain, text)
        return self.camel.sub("".join(map(str.capitalize, words)), text)


def phrases_of(page):
    """The rows of the table in the section "Not used"."""
    section = page.partition("\n## Not used\n")[2]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    wrong = [row for row in rows if not ROW.fullmatch(row)]
    if wrong or not rows:
        sys.exit(f"{PAGE}: not a row | `word` | `other word` |: {wrong or 'none'}")
    return [Phrase(*ROW.fullmatch(row).groups()) for row in rows]


def files_of(root):
    """All files that we wrote."""
    files = [path for path in root.glob("*") if path.is_file() and (path.suffix in SUFFIXES or path.name == "Makefile")]
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root)
            if inside.is_relative_to(RELEASED):
                continue
            if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink() and not BUILT & set(inside.parts):
                files.append(path)
    return [path for path in files if str(path.relative_to(root)) not in LEFT_OUT]


def check(root, write=False):
    """All complaints, and how many files were looked at."""
    phrases = phrases_of((root / PAGE).read_text(encoding="utf-8"))
    complaints, files = [], files_of(root)
    for path in files:
        text = path.read_text(encoding="utf-8")
        for phrase in phrases:
            for start in phrase.find(text):
                line = text.count("\n", 0, start) + 1
                complaints.append(f'{path.relative_to(root)}:{line}: write "{phrase.instead}", not "{phrase.words}"')
            if write:
                text = phrase.replace(text)
        if write and text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
    return complaints, len(files)


def main(arguments):
    write = "--write" in arguments
    rest = [argument for argument in arguments if argument != "--write"]
    root = Path(rest[0]).resolve() if rest else Path(__file__).resolve().parent.parent
    complaints, count = check(root, write)
    if write:
        print(f"{len(complaints)} replaced; now run tools/apigen.py")
        return 0
    print("\n".join(complaints) if complaints else f"{count} files use no word that {PAGE} keeps out")
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
