#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no file depends on itself through others: headers and sources by #include, Python modules by import.

    tools/check_circles.py [ROOT]

In Python, an import inside a function counts too, because it only hides the circle from the interpreter. Imports under
`if TYPE_CHECKING:` do not count: they only name types, as `class Pool;` does in C++. Names each circle once, file by
file.
"""

import ast
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
SOURCES = {".c", ".cpp", ".h", ".hpp"}
# Folders with C and C++, and where their includes are searched, after the file's own folder.
INCLUDING = ("src", "include", "tests", "bindings/swig/src", "bindings/python/native")
SEARCH = ("src", "include", "tests")
# Folders whose files are modules, in packages below them or by themselves.
IMPORTING = ("bindings/python/src", "tools")


def include_arrows(root):
    """file -> files in the repository that it includes."""
    arrows = {}
    for folder in INCLUDING:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            found = set()
            for quote, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                beside = [path.parent / name] if quote == '"' else []
                places = (*beside, *(root / folder / name for folder in SEARCH))
                found |= {place.resolve() for place in places if place.is_file()}
            arrows[path.resolve()] = found
    return arrows


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
    """Circles, each as a list of files; at least one for each group of files that depend on each other."""
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
    arrows = include_arrows(root) | import_arrows(root)
    circles = [" -> ".join(str(file.relative_to(root)) for file in circle) for circle in circles_in(arrows)]
    return circles, len(arrows)


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parent.parent).resolve()
    circles, count = check(root)
    print("\n".join(f"a circle: {circle}" for circle in circles) if circles else f"{count} files, no circle")
    return 1 if circles or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
