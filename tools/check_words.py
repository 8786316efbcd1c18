#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no file uses a word that docs/words.md bans, in text, comments or names, that no function in src has a
name that the page bans, and that a type of the library with a name of one meaning is in the file that the page names.

    tools/check_words.py [--write] [ROOT]

The words of a phrase may be separated by spaces, by an underscore, by a line end with a comment leader, or be in
CamelCase. --write replaces what it finds; run tools/apigen.py afterwards for text derived from the header. It does not
replace names of functions: the right name depends on what the function does.
"""

import re
import sys
from pathlib import Path

PAGE = "docs/words.md"
FOLDERS = ("src", "include", "docs", "tests", "bindings", "examples", "tools", "cmake")
SUFFIXES = set(
    """
    .c .cpp .cs .go .h .hpp .i .in .java .js .json .lua .map .md .py .pyi .rb .rs .sh .swg .toml .txt .cmake .yml .yaml
""".split()
)
# The files that list the words, and files written by others or generated.
LEFT_OUT = {PAGE, "tests/tools/test_check_words.py"}
RELEASED = "tests/abi/released"  # in the words of its day
BUILT = {"target", "node_modules", "build", "__pycache__", ".venv"}
ROW = re.compile(r"\| `([a-z ]+)` \| `([a-z ]+)` \|")
NAME_ROW = re.compile(r"\| `([a-z_]+)` \| (`[a-z_]+`(?:, `[a-z_]+`)*) \|")
TYPE_ROW = re.compile(r"\| `([A-Z]\w+)` \| `([\w/]+\.hpp)` \|")
NOT_OF_LIBRARY = ("src/cli/", "src/frameworks/")
CODE = {".c", ".cpp", ".h", ".hpp"}
# Comments and literals, which may say anything; lines stay.
NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])*'", re.DOTALL)
GAP = r"(?:_|[ \t]+|[ \t]*\n[ \t]*(?:(?://[/!]?|\*|#|--)[ \t]*)?)"


class Phrase:
    """A banned phrase, and its replacement."""

    def __init__(self, words, instead):
        self.words, self.instead = words, instead
        parts = words.split(" ")
        self.plain = re.compile(rf"(?<![A-Za-z]){GAP.join(parts)}(?![A-Za-z])", re.IGNORECASE)
        self.camel = re.compile("".join(map(str.capitalize, parts)) + "(?![a-z])")

    def find(self, text):
        """Where the phrase occurs."""
        found = [*self.plain.finditer(text), *self.camel.finditer(text)]
        return sorted(match.start() for match in found)

    def replace(self, text):
        """The text with the replacement: in the place of the first word, in the same case, with the same gaps."""
        words = self.instead.split(" ")

        def plain(match):
            gaps = re.findall(GAP, match.group())
            joined = words[0]
            for index, word in enumerate(words[1:]):
                joined += (gaps[index] if index < len(gaps) else " ") + word
            left = gaps[len(words) - 1 :]  # keep the line end
            tail = "".join(gap.rstrip(" \t") for gap in left if "\n" in gap)
            first = joined[0].upper() if match.group()[0].isupper() else joined[0]
            return first + joined[1:] + tail

        text = self.plain.sub(plain, text)
        return self.camel.sub("".join(map(str.capitalize, words)), text)


class Names:
    """Names banned for functions in src, and their replacements."""

    def __init__(self, instead):
        self.instead = instead
        name = rf"\b((?:{'|'.join(instead)})(?:_\w+)?)"
        self.found = re.compile(rf"{name}\s*\(|\bauto {name} = \[")

    def complaints(self, text):
        """The line and the complaint, for each banned name."""
        code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        for match in self.found.finditer(code):
            name = match.group(1) or match.group(2)
            kept_out = max((each for each in self.instead if f"{name}_".startswith(f"{each}_")), key=len)
            better = " or ".join(re.findall(r"\w+", self.instead[kept_out]))
            yield code.count("\n", 0, match.start()) + 1, f'a function named "{name}": {better}, see {PAGE}'


class Types:
    """Names of types that have one meaning in the library, and the files that have them."""

    def __init__(self, files):
        self.files = files
        self.found = re.compile(rf"\b(?:struct|class)\s+({'|'.join(files)})\b(?!\s*[;>])")

    def complaints(self, text, inside):
        """The line and the complaint, for each type of such a name in another file."""
        code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        for match in self.found.finditer(code):
            file = self.files[match.group(1)]
            if inside != f"src/{file}":
                yield code.count("\n", 0, match.start()) + 1, f"a type named {match.group(1)}, which is that of {file}"


def rows_of(page, heading, row):
    """The rows of the table under a heading."""
    section = re.split(r"\n##+ ", page.partition(f"\n{heading}\n")[2])[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    wrong = [line for line in rows if not row.fullmatch(line)]
    if wrong or not rows:
        sys.exit(f'{PAGE}: not a row | `word` | `other word` | under "{heading}": {wrong or "none"}')
    return [row.fullmatch(line).groups() for line in rows]


def phrases_of(page):
    return [Phrase(*row) for row in rows_of(page, "## Not used", ROW)]


def names_of(page):
    return Names(dict(rows_of(page, "### Names of functions kept out", NAME_ROW)))


def types_of(page):
    return Types(dict(rows_of(page, "### Types with one meaning", TYPE_ROW)))


def files_of(root):
    """All files that we write."""
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
    """All complaints, and the number of files checked."""
    page = (root / PAGE).read_text(encoding="utf-8")
    phrases, names, types = phrases_of(page), names_of(page), types_of(page)
    complaints, files = [], files_of(root)
    for path in files:
        text = path.read_text(encoding="utf-8")
        for phrase in phrases:
            for start in phrase.find(text):
                line = text.count("\n", 0, start) + 1
                complaints.append(f'{path.relative_to(root)}:{line}: write "{phrase.instead}", not "{phrase.words}"')
            if write:
                text = phrase.replace(text)
        if path.suffix in CODE and path.is_relative_to(root / "src"):
            inside = path.relative_to(root).as_posix()
            found = list(names.complaints(text))
            if not inside.startswith(NOT_OF_LIBRARY):
                found += types.complaints(text, inside)
            complaints += [f"{inside}:{line}: {what}" for line, what in found]
        if write and text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
    return complaints, len(files)


def main(arguments):
    write = "--write" in arguments
    rest = [argument for argument in arguments if argument != "--write"]
    root = Path(rest[0]).resolve() if rest else Path(__file__).resolve().parent.parent
    complaints, count = check(root, write)
    if write:
        print(f"{len(complaints)} found, and replaced except in names of functions; now run tools/apigen.py")
        return 0
    print("\n".join(complaints) if complaints else f"{count} files use no word that {PAGE} bans")
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
