#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what the pages name is there: files, folders, and functions of the sources.

    tools/check_pages.py [ROOT]

In Markdown, text between backquotes that has a slash and a known ending names a file: from the root, from src or beside
the page, and a pattern if it has a star. `Class::name` names something that a source under src or include mentions, the
class and the name each. What a page is not about is left out: blocks of code, addresses, and diaries (docs/lab).
"""

import re
import subprocess
import sys
from pathlib import Path

QUOTED = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^[\w.*][\w./*-]*/[\w./*-]+\.(?:c|h|cpp|hpp|py|sh|cmake|txt|md|map|json|gz|trace\.gz|i)$")
MEMBER = re.compile(r"^(\w+)::(\w+)(?:\(\))?$")
# Pages of what was tried, generated ones, and those of folders that are packages of their own.
LEFT_OUT = ("docs/lab/", "docs/api.md", "docs/python.md", "CHANGELOG.md", "bindings/", "packaging/", "examples/")
# Classes and files of other projects; and parts of a path that stand for any name.
FOREIGN = re.compile(r"^(std|torch|c10|rmm|Test\w+)(::|/)")
PLACEHOLDER = re.compile(r"\b(NAME|ECOSYSTEM)\b")


def pages(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if not name.startswith(LEFT_OUT)]


def words_of(root):
    """Every word of the sources."""
    words = set()
    for folder in ("src", "include", "tests"):
        for path in (root / folder).rglob("*"):
            if path.suffix in {".c", ".cpp", ".h", ".hpp"}:
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return words


def missing(root, page, words):
    """What a page names: how often, and the lines and names of what is not there."""
    text = FENCE.sub(lambda block: "\n" * block.group().count("\n"), (root / page).read_text(encoding="utf-8"))
    count = 0
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        for name in QUOTED.findall(line):
            member = MEMBER.match(name)
            if FOREIGN.match(name) or PLACEHOLDER.search(name) or not (member or FILE.match(name)):
                continue
            count += 1
            if not (set(member.groups()) <= words if member else is_there(root, page, name)):
                wrong.append((number, name))
    return count, wrong


def is_there(root, page, name):
    """Whether a file of that name, or pattern, exists where a reader would look."""
    folders = ("", "src", "src/frameworks/torch/include", "include", "tests", "build")
    places = [root / folder for folder in folders] + [(root / page).parent]
    return any(next(iter(place.glob(name)), None) is not None for place in places)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    words = words_of(root)
    checked = 0
    failed = False
    for page in pages(root):
        count, wrong = missing(root, page, words)
        checked += count
        for number, name in wrong:
            failed = True
            print(f"{page}:{number}: `{name}` is not there")
    if not failed:
        print(f"{checked} files and functions are where the pages say")
    return failed


if __name__ == "__main__":
    sys.exit(main())
