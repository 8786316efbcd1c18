#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C library as one C++ file for cgo: Go takes a package's sources from the package's own folder only.

amalgamate.py           writes bindings/go/internal/native: a list of includes that lead to src, for work in a checkout
amalgamate.py --check   fails if those files are not as they would be written
amalgamate.py FOLDER    replaces the includes by what they include, in a copy of bindings/go, for a release
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = Path("internal/native")
# As in src/CMakeLists.txt: all but the command and the functions that frameworks call.
LAYERS = sorted({path.name for path in (ROOT / "src").iterdir() if path.is_dir()} - {"cli", "frameworks"})
UP = "../" * 4
# As in cmake/system.cmake: which systems a source is for, by the end of its name.
SYSTEMS = {
    "linux": "defined(__linux__)",
    "macos": "defined(__APPLE__)",
    "windows": "defined(_WIN32)",
    "posix": "!defined(_WIN32)",
    "elsewhere": "!defined(__linux__)",
}


def system_of(path: Path) -> str:
    return path.stem.split("_")[-1]


def library_lines() -> list[str]:
    """Includes of all sources; those for some systems come last, after all headers that they include."""
    all_of = [path for layer in LAYERS for path in sorted((ROOT / "src" / layer).rglob("*.cpp"))]
    special = [path for path in all_of if system_of(path) in SYSTEMS]
    names = {found[1] for path in special for line in path.read_text(encoding="utf-8").splitlines()
             if (found := re.match(r'#include "([^"]+)"', line))}
    lines = [f"src/{name}" for name in sorted(names) if (ROOT / "src" / name).is_file()]
    lines += [str(path.relative_to(ROOT)) for path in all_of if path not in special]
    for system, condition in SYSTEMS.items():
        lines.append(f"#if {condition}")
        lines += [str(path.relative_to(ROOT)) for path in special if system_of(path) == system]
        lines.append("#endif")
    return lines


LINES = {
    "gpupool_header.h": (
        "The C library's header. Written by packaging/go/amalgamate.py.",
        ["include/gpupool/gpupool.h"],
    ),
    "gpupool_library.cpp": (
        "The C library: all of its sources in one. Written by packaging/go/amalgamate.py.",
        library_lines(),
    ),
}
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]\s*(//.*)?$')


def in_checkout(name: str) -> str:
    """A file of internal/native with includes that lead out of it."""
    words, paths = LINES[name]
    note = "" if name.endswith(".h") else "//go:build cgo && !gpupool_shared\n\n"
    head = f"// SPDX-License-Identifier: Apache-2.0\n{note}// {words}\n"
    return head + "".join(f"{path}\n" if path.startswith("#") else f'#include "{UP}{path}"\n' for path in paths)


def find(name: str, beside: Path) -> Path | None:
    """The project's own file that this includes, or none."""
    for folder in (beside, ROOT / "src", ROOT / "include"):
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            return path
    return None


def expand(text: str, beside: Path, seen: set[Path]) -> str:
    """The text, in which each of the project's own files replaces its first include."""
    lines = []
    for line in text.splitlines():
        found = INCLUDE.match(line)
        path = find(found[1], beside) if found else None
        if path is None:
            if line != "#pragma once":
                lines.append(line)
        elif path not in seen:
            seen.add(path)
            lines.append(f"// ---- {path.relative_to(ROOT)}")
            lines.append(expand(path.read_text(encoding="utf-8"), path.parent, seen).rstrip("\n"))
    return "\n".join(lines) + "\n"


def release(folder: Path) -> None:
    for name in LINES:
        text = expand(in_checkout(name), ROOT / "bindings/go" / NATIVE, set())
        (folder / NATIVE / name).write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    if arguments and arguments != ["--check"]:
        release(Path(arguments[0]))
        return 0
    stale = []
    for name in LINES:
        path, text = ROOT / "bindings/go" / NATIVE / name, in_checkout(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not arguments:
            path.write_text(text, encoding="utf-8")
    if arguments and stale:
        print(f"not as src has it, write it with packaging/go/amalgamate.py: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
