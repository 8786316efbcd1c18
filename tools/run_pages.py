#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the code blocks in README.md and in docs, to ensure that what a reader copies works.

    tools/run_pages.py [--page PAGE] [--without LANGUAGE] FOLDER [LANGUAGE...]

Each block is built and run in its own folder under FOLDER, with the text that a program in its language needs around it
(below). Of a block of the language console, what stands behind "$ " is run. The environment is that of
tools/languages.sh: an installed library, its command, the toolchains; blocks of Python need a python3 that has gpupool.
A comment before a block, which readers do not see, says more:

    <!-- not run: REASON -->    for a block that cannot run here
    <!-- run by WAY -->         as a language of that name runs, such as pytest
    <!-- run in:                the block stands where the three points are; without them, behind all of this
    pool = gpupool.Pool("sim")
    ...
    pool.close()
    -->

A block in an unknown language that is not marked as not run is a failure; blocks of the language text are no code.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"```(\w*)")
NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->")
RUN_BY = re.compile(r"<!-- run by (\w+) -->")
RUN_IN = "<!-- run in:"
GENERATED = {"api.md", "python.md"}


@dataclass
class Block:
    """A code block: where it begins, its language, its text, why it does not run, the way it runs, and what is around
    it there."""

    line: int
    language: str
    text: str
    reason: str | None = None
    way: str = ""
    before: str = ""
    after: str = ""


@dataclass
class Way:
    """How a language's blocks run: the text around them, their file, the files beside it, and the shell command."""

    file: str
    command: str
    before: str = ""
    after: str = ""
    others: dict = field(default_factory=dict)


C = Way("app.c", "cc -Wall -Werror app.c $(pkg-config --cflags --libs gpupool) -o app\n./app")
WAYS = {
    "c": C,
    "cpp": Way(
        "app.cpp",
        "c++ -std=c++20 -Wall -Werror app.cpp $(pkg-config --cflags --libs gpupool) -o app\n./app",
        before="#include <gpupool/gpupool.hpp>\nint main() {\n  const gpupool_stream_t stream = 0;\n",
        after="  return block.ptr() == 0;\n}\n",
    ),
    "rust": Way(
        "src/main.rs",
        "cargo run --quiet",
        before="use gpupool::Pool;\nfn main() -> gpupool::Result<()> {\n",
        after="    assert_eq!(block.bytes(), 1 << 20);\n    Ok(())\n}\n",
        others={
            "Cargo.toml": '[package]\nname = "readme"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
            f'[dependencies]\ngpupool = {{ path = "{ROOT}/bindings/rust/gpupool" }}\n',
            "Cargo.lock": lambda: (ROOT / "bindings/rust/Cargo.lock").read_text(encoding="utf-8"),
        },
    ),
    "go": Way(
        "main.go",
        "go run .",
        before='package main\n\nimport gpupool "github.com/gpupool/gpupool/bindings/go"\n\n'
        "func main() {\n\tvar stream gpupool.Stream\n",
        after="\tif err != nil {\n\t\tpanic(err)\n\t}\n\tdefer pool.Close()\n\tdefer block.Close()\n}\n",
        others={
            "go.mod": "module readme\n\ngo 1.24\n\nrequire github.com/gpupool/gpupool/bindings/go v0.0.0\n\n"
            f"replace github.com/gpupool/gpupool/bindings/go => {ROOT}/bindings/go\n"
        },
    ),
    "cmake": Way(
        "CMakeLists.txt",
        'cmake -S . -B build -DCMAKE_PREFIX_PATH="$GPUPOOL_PREFIX" >configure.log\n'
        "cmake --build build >build.log\nbuild/app",
        before="cmake_minimum_required(VERSION 3.22)\nproject(readme C)\nadd_executable(app app.c)\n",
        others={"app.c": "the page's first block of C"},
    ),
    "sh": Way("block.sh", "bash -eu block.sh", others={"app.c": "the page's first block of C"}),
    "console": Way("block.sh", "bash -eu block.sh"),
    "python": Way("block.py", "python3 -B block.py"),
    "pytest": Way("test_block.py", "python3 -B -m pytest -q -p no:cacheprovider test_block.py"),
}


def until(lines, end, number, what):
    """The lines before the one that ends a block or a comment."""
    inside = []
    for _, line in lines:
        if line == end:
            return inside
        inside.append(line)
    raise ValueError(f"line {number}: the {what} does not end")


def mark_of(line, lines, number):
    """What a comment says of the block that follows it, as fields of Block; None: it is another kind of line."""
    if line == RUN_IN:
        around = until(lines, "-->", number, "mark")
        at = around.index("...") if "..." in around else len(around)
        return {
            key: "".join(f"{each}\n" for each in part)
            for key, part in (("before", around[:at]), ("after", around[at + 1 :]))
        }
    for pattern, key in ((NOT_RUN, "reason"), (RUN_BY, "way")):
        if match := pattern.fullmatch(line):
            return {key: match.group(1)}
    if re.match(r"<!-- (not )?run\b", line):
        raise ValueError(f"line {number}: a mark is <!-- not run: REASON -->, <!-- run by WAY --> or <!-- run in:")
    return None


def blocks_of(text):
    """The blocks of a page. Raises ValueError for a mark without a block, and for a block without an end."""
    blocks, marks, lines = [], {}, iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if fence := FENCE.fullmatch(line):
            inside = until(lines, "```", number, "block")
            if fence.group(1) == "console":
                inside = [each[2:] for each in inside if each.startswith("$ ")]
            blocks.append(Block(number, fence.group(1), "\n".join(inside) + "\n", **marks))
            marks = {}
        elif (mark := mark_of(line, lines, number)) is not None:
            marks |= mark
        elif marks:
            raise ValueError(f"line {number}: no block follows the mark")
    return blocks


def prepare(folder, way, block, first_c):
    """Writes the files that the block needs, and the data that its commands may name."""
    texts = {"app.c": first_c, way.file: way.before + block.before + block.text + block.after + way.after}
    for name, text in way.others.items():
        texts.setdefault(name, text() if callable(text) else text)
    for name, text in texts.items():
        if name == way.file or name in way.others:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    tests = folder / "tests"
    if not tests.exists():
        tests.symlink_to(ROOT / "tests")


def environment(folder):
    """The environment, with the build folders of the bindings' own checks, so that little is built twice, and with a
    folder of its own for groups of processes."""
    build = ROOT / "build/bindings"
    ours = {
        "CARGO_TARGET_DIR": str(build / "rust"),
        "GOCACHE": str(build / "go/cache"),
        "GOFLAGS": "-buildvcs=false -p=2 -tags=gpupool_shared",
        "GOTOOLCHAIN": "local",
        "GPUPOOL_BACKEND": "sim",
        "GPUPOOL_SHARE_DIR": str(folder),
    }
    return os.environ | ours


def run(folder, way, block, first_c):
    """What went wrong with a block; "" if nothing did."""
    shutil.rmtree(folder, ignore_errors=True)  # what an earlier run has made there
    folder.mkdir(parents=True)
    prepare(folder, way, block, first_c)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", way.command],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else f"exit status {done.returncode}\n{done.stdout}"


def run_page(page, work, languages, without=(), ways=WAYS):
    """Runs the blocks of a page (all languages if none is named); returns how many ran, and all complaints."""
    name = page.name
    try:
        blocks = blocks_of(page.read_text(encoding="utf-8"))
    except ValueError as error:
        return 0, [f"{name}: {error}"]
    first_c = next((block.text for block in blocks if block.language == "c"), "")
    count, complaints = 0, []
    for block in blocks:
        place = f"{name}:{block.line}: {block.language or 'no language'}"
        if languages and block.language not in languages:
            continue
        reason = "left out" if block.language in without else block.reason
        way = block.way or block.language
        if block.language == "text" and not reason:
            continue
        if reason:
            print(f"{place}: not run: {reason}")
        elif way not in ways:
            complaints.append(f"{place}: this tool does not know how to run it; put <!-- not run: REASON --> before it")
        else:
            print(f"{place}: run", flush=True)
            count += 1
            what = run(work / page.stem / f"{block.line}_{way}", ways[way], block, first_c)
            if what:
                complaints.append(f"{place}: {what}")
    return count, complaints


def all_pages():
    docs = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/inside").glob("*.md"))]
    return [ROOT / "README.md", *(page for page in docs if page.name not in GENERATED)]


def main(arguments):
    parser = argparse.ArgumentParser(description="Runs the code blocks in README.md and docs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", action="append", type=Path)
    parser.add_argument("--without", action="append", default=[], metavar="LANGUAGE")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE")
    options = parser.parse_args(arguments)
    results = [
        run_page(page, options.folder.resolve(), options.languages, options.without)
        for page in options.page or all_pages()
    ]
    count = sum(each for each, _ in results)
    complaints = [each for _, several in results for each in several]
    print("\n".join(complaints) if complaints else f"{count} blocks ran")
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
