#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what the pages name is there: files, folders, headings, functions, classes, variables, targets of make.

    tools/check_pages.py [ROOT]

A link leads to a file, and to a heading of it. Text between backquotes names

    src/pool/pool.cpp, pool/*.cpp   a file or pattern: from the root, from src, tests, docs or beside the page
    growth.cpp                      a file of that name, anywhere
    Heap::cost, Suite.Test          something that one source mentions, both words of it
    gpupool_x, GPUPOOL_X, kMaxX, run_all()     a word that some source has
    make check                      a target of the Makefile

and in a page that begins with "Every file of `src/x`", `room/file` is a source there. What is not looked at: blocks of
code, other projects' names, and what diaries (docs/lab) and CHANGELOG.md tell of what was. A page that is about a name
which is nowhere else has it in ELSEWHERE.
"""

import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
EVERY_FILE = re.compile(r"^Every file of `(src/\w+)`", re.MULTILINE)

FOLDER = r"(?:src|include|tests|tools|docs|bindings|examples|cmake|packaging)/"
ENDING = r"\.(?:c|h|cpp|hpp|py|pyi|sh|cmake|txt|md|map|json|gz|i|swg|yml|yaml|js|cjs|mjs|ts|rs|go|java|cs|lua|rb|toml)"
PATH = re.compile(rf"^(?:{FOLDER}[\w./*{{}},-]*|[\w.*][\w.*-]*/[\w./*{{}},-]+{ENDING})$")
FILE = re.compile(rf"^[\w*][\w.*-]*{ENDING}$")
ROOM_FILE = re.compile(r"^[a-z]\w*/\w+$")
MEMBER = re.compile(r"^(\w+)(?:::|\.(?=[A-Z]))(\w+)(?:\(\))?$")
WORD = re.compile(r"^(?:gpupool_\w+|GPUPOOL_\w+|k[A-Z]\w+|\w+(?=\(\)$))")
MAKE = re.compile(r"^make ([a-z-]+)$")

# Where a reader looks for a path, beside the page's own folder.
PLACES = ("", "src", "src/frameworks/torch/include", "include", "tests", "docs", "bindings", "build")
SOURCES = re.compile(rf"{ENDING}$|\.(?:cfg|in|S|swg|ini|service)$|(?:^|/)(?:Makefile|CMakeLists\.txt|[\w-]+)$")
# Tell of what was: only their links are checked.
DIARIES = ("docs/lab/", "CHANGELOG.md")
# Classes and files of others, and parts of a path that stand for any name.
FOREIGN = re.compile(r"^(std|torch|c10|rmm|cuda)(::|/)|^cuda\.h$")
PLACEHOLDER = re.compile(r"\b(NAME|ECOSYSTEM|FOLDER|VERSION|v?X\.Y\.Z|X)\b")
ELSEWHERE = {
    "docs/ci.md": {"test_memory.py"},
    "docs/packages.md": {"libgpupool-0.2.0.tar.gz"},
    "docs/pytorch.md": {
        "test_cuda_multigpu.py",
        "test_cuda_sanitizer.py",
        "test_cuda_trace.py",
        "nn/test_dropout.py",
        "test_multiprocessing.py",
        "inductor/test_cudagraph_trees.py",
    },
    "docs/sleep.md": {"test_cumem.py", "test_release_memory_occupation.py"},
    # Metrics, whose names are put together.
    "docs/watch.md": {"gpupool_limit_bytes", "gpupool_mallocs_total", "gpupool_steals_total"},
    "third_party/README.md": {"dist/uPlot.iife.min.js"},
}


def listed(root):
    """The repository's files: what git tracks, or would."""
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if (root / name).is_file()]


def expand(text):
    """The paths that `a/{b,c}.cpp` stands for."""
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    return [one for part in match.group(1).split(",") for one in expand(text.replace(match.group(), part, 1))]


class Tree:
    """What there is to be named."""

    def __init__(self, root, files):
        self.root = root
        self.pages = [name for name in files if name.endswith(".md")]
        self.names = {Path(name).name for name in files}
        self.words = {}  # of each source
        for name in files:
            if SOURCES.search(name) and not name.endswith(".md"):
                text = (root / name).read_text(encoding="utf-8", errors="ignore")
                self.words[name] = frozenset(re.findall(r"\w+", text))
        self.all_words = frozenset().union(*self.words.values())
        makefile = root / "Makefile"
        rules = makefile.read_text(encoding="utf-8") if makefile.is_file() else ""
        self.targets = re.findall(r"^([a-z-]+):", rules, re.MULTILINE)

    def has_path(self, page, name):
        beside = (self.root / page).parent
        places = [*(self.root / place for place in PLACES), beside, beside.parent]
        return all(any(any(place.glob(one.rstrip("/."))) for place in places) for one in expand(name))

    def has_file(self, name):
        return name in self.names or ("*" in name and any(Path(one).match(name) for one in self.names))

    def has_both(self, one, other):
        return any(one in words and other in words for words in self.words.values())

    def has_link(self, page, path, heading):
        to = (self.root / page).parent / path if path else self.root / page
        return to.exists() and (not heading or to.is_dir() or to.suffix != ".md" or heading in anchors(to))


def anchors(page):
    """The names of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in HEADING.findall(text)}


def is_there(tree, page, name, folder):
    """Whether what the name names is there; None if it names nothing that is looked for."""
    if FOREIGN.match(name) or PLACEHOLDER.search(name) or name in ELSEWHERE.get(page, ()):
        return None
    if match := MAKE.match(name):
        return match[1] in tree.targets
    if FILE.match(name):
        return tree.has_file(name)
    if PATH.match(name):
        return tree.has_path(page, name)
    if match := MEMBER.match(name):
        return tree.has_both(*match.groups())
    if match := WORD.match(name):
        return match[0] in tree.all_words
    if folder and ROOM_FILE.match(name):
        return any(any((tree.root / place).glob(f"{name}.*")) for place in (folder, "src"))
    return None


def missing(tree, page):
    """What a page names: how often, and the lines and names of what is not there."""
    text = (tree.root / page).read_text(encoding="utf-8")
    text = FENCE.sub(lambda block: "\n" * block.group().count("\n"), text)
    every = EVERY_FILE.search(text)
    answers = []
    for number, line in enumerate(text.splitlines(), 1):
        for path, heading in LINK.findall(line):
            answers.append((number, f"{path}#{heading}".rstrip("#"), tree.has_link(page, path, heading)))
        if not page.startswith(DIARIES):
            for name in QUOTED.findall(line):
                answers.append((number, name, is_there(tree, page, name, every and every[1])))
    answers = [each for each in answers if each[2] is not None]
    return len(answers), [(number, name) for number, name, there in answers if not there]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    tree = Tree(root, listed(root))
    checked = 0
    failed = False
    for page in tree.pages:
        count, wrong = missing(tree, page)
        checked += count
        for number, name in wrong:
            failed = True
            print(f"{page}:{number}: `{name}` is not there")
    if not failed:
        print(f"{checked} files, headings and functions are where the pages say")
    return failed


if __name__ == "__main__":
    sys.exit(main())
