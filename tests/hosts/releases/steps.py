# SPDX-License-Identifier: Apache-2.0
"""What the programs that try a release share.

A program gets the folder of a release, and ends by saying how far it came (came). Any exception is a failure."""

import ast
import importlib.util
import inspect
import site
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gpupool

FOLDER = Path(sys.argv[1])
"""Of the release."""

INTERFACE, IMPORTED, RAN = "interface checked", "imported", "ran on CPU"


def use() -> None:
    """Lets Python import the release, as if it were installed."""
    site.addsitedir(str(FOLDER))
    sys.path.insert(0, str(FOLDER))
    importlib.invalidate_caches()


def came(how: str, words: object = "") -> None:
    """The last line that a program prints. words: why it came no further, as the library says it."""
    first = str(words).strip().partition("\n")[0]
    print(f"{how}\t{first}")


def held() -> int:
    """Bytes that the pool of device 0 has handed out."""
    return gpupool.default_pool(0).memory_allocated()


def tree(path: str | Path) -> ast.Module:
    return ast.parse((FOLDER / path).read_text(encoding="utf-8"))


def calls(module: ast.AST, is_of: Callable[[ast.expr], bool]) -> Iterator[tuple[str, ast.Call]]:
    """The calls of methods of an object, with the methods' names."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_of(node.func.value):
            yield node.func.attr, node


def expect_answer(kind: type, name: str, call: ast.Call) -> None:
    """kind has such a method, which takes these arguments."""
    named = {each.arg: None for each in call.keywords if each.arg is not None}
    bind = inspect.signature(getattr(kind, name))
    is_open = len(named) < len(call.keywords) or any(isinstance(each, ast.Starred) for each in call.args)
    (bind.bind_partial if is_open else bind.bind)(None, *call.args, **named)


def expect_parameters(ours: type, theirs: ast.ClassDef) -> None:
    """ours has each public method of theirs, which takes the same arguments."""
    for method in theirs.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            found = inspect.getattr_static(ours, method.name)
            if callable(found):
                names = [each.arg for each in [*method.args.args, *method.args.kwonlyargs]][1:]
                inspect.signature(found).bind(None, **dict.fromkeys(names))


def class_of(module: ast.Module, name: str) -> ast.ClassDef:
    return next(each for each in module.body if isinstance(each, ast.ClassDef) and each.name == name)
