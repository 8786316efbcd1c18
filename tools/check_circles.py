#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no room depends on itself through others: headers and sources by #include, Python modules by import.

    tools/check_circles.py [ROOT]

A header and its sources, those for one system included, are one room: a source that includes a header whose source
includes its own is a circle too. In Python, a module is a room, and an import inside a function counts too, because it
only hides the circle from the interpreter. Imports under `if TYPE_CHECKING:` do not count: they only name types, as
`class Pool;` does in C++. Names each circle once, room by room.
"""

import ast
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
SOURCES = {".c", ".cpp", ".h", ".hpp"}
# As in cmake/system.cmake: the end of the name of a source for some systems.
SYSTEM = re.compile(r"_(linux|macos|windows|posix|elsewhere)$")
# Folders with C and C++, and where their includes are searched, after the file's own folder.
INCLUDING = ("src", "include", "tests", "bindings/swig/src", "bindings/python/native")
SEARCH = ("src", "include", "tests")
# Folders whose files are modules, in packages below them or by themselves.
IMPORTING = ("bindings/python/src", "tools")


def room_of(path):
    """A header and its sources have one path without the ending."""
    return path.with_name(SYSTEM.sub("", path.stem))


def include_arrows(root):
    """room -> rooms in the repository that its files include, and the number of files."""
    arrows = {}
    count = 0
    for folder in INCLUDING:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            count += 1
            found = arrows.setdefault(room_of(path.resolve()), set())
            for quote, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                beside = [path.parent / name] if quote == '"' else []
                places = (*beside, *(root / folder / name for folder in SEARCH))
                found |= {room_of(place.resolve()) for place in places if place.is_file()}
    return {room: found - {room} for room, found in arrows.items()}, count


def names_types_only(node):
    test = node.test if isinstance(node, ast.If) else None
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def imports_of(node):
    """Every import below a node, except those that only name types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif names_types_only(child):
            for other in child.orelse:
                yield from imports_of(ast.Module([other], []))
        else:
            yield from imports_of(child)


def module_file(base, parts):
    """The file of a module, or None."""
    path = base.joinpath(*parts)
    for file in (path.with_suffix(".py") if parts else None, path / "__init__.py"):
        if file is not None and file.is_file():
            return file.resolve()
    return None


def files_of(statement, path, base):
    """The files below `base` that an import statement in the file at `path` imports."""
    if isinstance(statement, ast.Import):
        return {file for name in statement.names if (file := module_file(base, name.name.split(".")))}
    start = [] if statement.level == 0 else list(path.parent.relative_to(base).parts)
    if statement.level > 1:
        start = start[: 1 - statement.level]
    parts = start + (statement.module.split(".") if statement.module else [])
    found = set()
    for name in statement.names:
        # A submodule, or a name in the module itself.
        file = module_file(base, [*parts, name.name]) or module_file(base, parts)
        found |= {file} if file else set()
    return found


def import_arrows(root):
    """file -> files of ours that it imports, anywhere."""
    arrows = {}
    for folder in IMPORTING:
        base = (root / folder).resolve()
        for path in sorted(base.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            arrows[path] = {file for one in imports_of(tree) for file in files_of(one, path, base)} - {path}
    return arrows


def circles_in(arrows):
    """Circles, each as a list of rooms; at least one for each group of rooms that depend on each other."""
    state, way, found = {}, [], []

    def visit(file):
        state[file] = "open"
        way.append(file)
        for other in sorted(arrows.get(file, ())):
            if state.get(other) == "open":
                found.append([*way[way.index(other) :], other])
            elif other not in state:
                visit(other)
        way.pop()
        state[file] = "done"

    for file in sorted(arrows):
        if file not in state:
            visit(file)
    return found


def check(root):
    """A description of every circle, and the number of files checked."""
    includes, count = include_arrows(root)
    imports = import_arrows(root)
    circles = [
        " -> ".join(str(room.relative_to(root)) for room in circle) for circle in circles_in(includes | imports)
    ]
    return circles, count + len(imports)


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parent.parent).resolve()
    circles, count = check(root)
    print("\n".join(f"a circle: {circle}" for circle in circles) if circles else f"{count} files, no circle")
    return 1 if circles or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
