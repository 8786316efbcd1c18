#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/python.md: every public name of the Python package with its signature and docstring, read from the
sources, without building them.

python_reference.py           writes it
python_reference.py --check   fails if the page is out of date, or a public name has no docstring
"""

import ast
import builtins
import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bindings/python/src/gpupool"
PAGE = ROOT / "docs/python.md"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# The Python package, name by name

Written by `tools/python_reference.py` from the docstrings; begin with `bindings/python/README.md`.
"""
# Dunder methods that users call, though not by that name.
SPOKEN = {"__init__", "__getitem__", "__len__", "__bytes__", "__array__", "__await__"}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Package:
    def __init__(self, folder: Path) -> None:
        self.modules = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py"))}
        self.modules["frameworks"] = ast.parse((folder / "frameworks/__init__.py").read_text(encoding="utf-8"))
        self.missing: list[str] = []

    def names(self) -> list[str]:
        """The names in __all__."""
        for node in self.modules["__init__"].body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return ast.literal_eval(node.value)
        raise ValueError("__init__.py has no __all__")

    def find(self, name: str) -> tuple[ast.AST | None, str]:
        """The definition of a public name, and the string below it, if any, which documents an attribute. A function
        with overloads counts as its last definition."""
        found: tuple[ast.AST | None, str] = (None, "")
        for module in self.modules.values():
            for node, after in zip(module.body, [*module.body[1:], None], strict=True):
                if isinstance(node, Definition) and node.name == name:
                    found = (node, ast.get_docstring(node) or "")
                elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    if ast.unparse(target) == name:
                        text = after.value.value if is_text(after) else ""
                        found = (node, inspect.cleandoc(text))
        return found

    def members(self, node: ast.ClassDef) -> list[ast.FunctionDef]:
        """Public methods and properties of a class and its bases, nearest first."""
        found: dict[str, ast.FunctionDef] = {}
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and (not each.name.startswith("_") or each.name in SPOKEN):
                found[each.name] = each
        for base in node.bases:
            inherited = self.find(ast.unparse(base).split("[")[0])[0]
            if isinstance(inherited, ast.ClassDef):
                for each in self.members(inherited):
                    found.setdefault(each.name, each)
        return list(found.values())

    def page(self) -> str:
        parts = [HEAD]
        for name in self.names():
            node, words = self.find(name)
            if node is None:
                parts.append(f"## `gpupool.{name}`\n\n{self.module_words(name)}\n")
            elif isinstance(node, ast.ClassDef):
                parts.append(self.class_words(name, node, words))
            elif isinstance(node, ast.FunctionDef):
                parts.append(f"## `gpupool.{signature(node)}`\n\n{self.checked(name, words)}\n")
            else:
                parts.append(f"## `gpupool.{name}`\n\n{words or '`' + ast.unparse(node) + '`'}\n")
        return "\n".join(parts)

    def module_words(self, name: str) -> str:
        """A module that is a public name: its docstring and functions."""
        module = self.modules[name]
        parts = [ast.get_docstring(module) or ""]
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                words = self.checked(f"{name}.{node.name}", ast.get_docstring(node) or "")
                parts.append(f"### `{name}.{signature(node)}`\n\n{words}")
        return "\n\n".join(parts)

    def class_words(self, name: str, node: ast.ClassDef, words: str) -> str:
        shown = {*self.names(), *dir(builtins), "IntEnum", "IntFlag"}
        bases = ", ".join(f"`{ast.unparse(base)}`" for base in node.bases if ast.unparse(base) in shown)
        parts = [f"## class `gpupool.{name}`" + (f" ({bases})" if bases else ""), self.checked(name, words)]
        fields = [each for each in node.body if is_public_field(each)]
        parts += ["\n".join(f"- `{ast.unparse(each)}`" for each in fields)] if fields else []
        for each in self.members(node):
            words = ast.get_docstring(each) or ""
            if each.name == "__init__":
                parts.append(f"### `{name}{signature(each).removeprefix('__init__')}`")
            else:
                kind = "" if not any(ast.unparse(d) == "property" for d in each.decorator_list) else " (property)"
                parts.append(f"### `{name}.{each.name if kind else signature(each)}`{kind}")
            parts.append(words)
        return "\n\n".join(part for part in parts if part) + "\n"

    def checked(self, name: str, words: str) -> str:
        if not words:
            self.missing.append(name)
        return words


def is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_public_field(node: ast.AST) -> bool:
    """A member of an enum, or a field of a record."""
    if isinstance(node, ast.Assign):
        return not ast.unparse(node.targets[0]).startswith("_")
    return isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_")


def signature(node: ast.FunctionDef) -> str:
    arguments = ast.unparse(node.args)
    for first in ("self, ", "self"):
        if arguments.startswith(first):
            arguments = arguments.removeprefix(first)
            break
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    return f"{node.name}({arguments}){result}"


def main(arguments: list[str]) -> int:
    package = Package(PACKAGE)
    text = "\n".join(line.rstrip() for line in package.page().splitlines()) + "\n"
    if package.missing:
        print(f"python_reference.py: no docstring: {', '.join(package.missing)}", file=sys.stderr)
        return 1
    if arguments == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print("docs/python.md differs from the docstrings: run tools/python_reference.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
