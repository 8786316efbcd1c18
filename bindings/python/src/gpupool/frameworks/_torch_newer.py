# SPDX-License-Identifier: Apache-2.0
"""Virtual functions of PyTorch's allocator class that our shim does not know, because this PyTorch is newer.

A pure one would keep the shim from compiling. So the headers are read before that, and whatever is new gets an override
in a header of its own: it calls our function of the same name, if only arguments were added, or refuses in words. A
feature is lost, and not all of them. What PyTorch no longer has is declared there, so that ours still overrides it.

This reads declarations, not C++: of macros it knows only that they can stand before a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# PyTorch's class after its bases, and where each is declared.
CLASSES = (
    ("Allocator", "c10/core/Allocator.h"),
    ("DeviceAllocator", "c10/core/CachingDeviceAllocator.h"),
    ("CUDAAllocator", "c10/cuda/CUDACachingAllocator.h"),
)
# Our class that overrides its functions, and for a PyTorch before 2.14 those that stand between.
_OURS = (("Allocator", "allocator.cpp"),)
_BETWEEN = tuple(
    (name, "older.hpp") for name in ("Before214", "Before213", "Before212", "Before211", "Before210", "Older")
)
_NEWEST_STEP = (2, 14)
# Known, and left as PyTorch has them.
_LEFT = {
    "is_simple_data_ptr(constDataPtr&) const",
    "getMemoryInfo(DeviceIndex)",
    "recordStream(constDataPtr&,Stream)",
}


@dataclass(frozen=True)
class Function:
    """A virtual function as a class declares it."""

    name: str
    result: str
    types: tuple[str, ...]  # of its parameters
    suffix: str  # const, noexcept
    is_pure: bool

    @property
    def signature(self) -> str:
        """The same for declarations that override each other, however they qualify names."""
        return f"{self.name}({','.join(map(_bare, self.types))})" + " const" * ("const" in self.suffix.split())

    def extends(self, other: Function) -> bool:
        """Whether it has the other one's parameters, and more behind them."""
        count = len(other.types)
        is_longer = self.name == other.name and count < len(self.types)
        return is_longer and [*map(_bare, self.types[:count])] == [*map(_bare, other.types)]


@dataclass
class Newer:
    """What becomes of the functions that the shim does not know."""

    forwarded: list[tuple[Function, int]] = field(default_factory=list)  # and how many arguments ours takes
    ignored: list[Function] = field(default_factory=list)  # observers, who hear of nothing; and what cannot throw
    refused: list[Function] = field(default_factory=list)
    inherited: list[Function] = field(default_factory=list)  # PyTorch has a default
    gone: list[Function] = field(default_factory=list)  # ours, of which PyTorch has none

    def __bool__(self) -> bool:
        return bool(self.words() or self.gone)

    def words(self) -> str:
        """Names those that are not known, for a warning; empty if there are none."""
        parts = {
            "refused": self.refused,
            "ignored": self.ignored,
            "served without its new arguments": [each for each, _ in self.forwarded],
            "left to PyTorch's default": self.inherited,
        }
        return "; ".join(f"{', '.join(each.name for each in group)} ({what})" for what, group in parts.items() if group)

    def header(self, version: str) -> str:
        """newer.hpp, which defines gpupool_torch::Newer."""
        lines = [line for each, count in self.forwarded for line in _forward(each, count)]
        for each in self.ignored:
            lines.append(_answer(each, f'TORCH_WARN_ONCE("gpupool ignores {each.name} of PyTorch {version}")'))
        for each in self.refused:
            lines.append(_answer(each, f'TORCH_CHECK(false, "gpupool does not know {each.name} of PyTorch {version}")'))
        gone = [f"virtual {each.result} {each.name}({', '.join(each.types)}){each.suffix} = 0;" for each in self.gone]
        return _HEADER.format(version=version, body=_indented(lines), gone=_indented(gone))


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


# In PyTorch's namespace, where its declarations mean what they mean there.
_HEADER = """// Written for PyTorch {version}: what it asks of an allocator, and the shim does not know.
#pragma once

#include "older.hpp"

namespace c10::cuda::CUDACachingAllocator {{
class GpupoolNewer : public gpupool_torch::Older {{
 public:
{body}
}};
}}  // namespace c10::cuda::CUDACachingAllocator

namespace gpupool_torch {{
class Newer : public c10::cuda::CUDACachingAllocator::GpupoolNewer {{
 public:
{gone}
}};
}}  // namespace gpupool_torch
"""


def find(include: Path, sources: Path) -> Newer:
    """Compares the headers of a PyTorch in its folder `include` with the shim's sources."""
    asked = _declared(include, CLASSES)
    is_newest = _version(include) >= _NEWEST_STEP
    own = _declared(sources, _OURS if is_newest else (*_BETWEEN, *_OURS))
    newer = Newer(gone=[each for key, each in own.items() if key not in asked] if is_newest else [])
    for key, each in asked.items():
        if key in own or key in _LEFT:
            continue
        known = [ours for ours in own.values() if each.extends(ours)]
        if not each.is_pure:
            newer.inherited.append(each)
        elif known:
            newer.forwarded.append((each, max(len(ours.types) for ours in known)))
        elif each.name.startswith("attach") or "noexcept" in each.suffix:
            newer.ignored.append(each)
        else:
            newer.refused.append(each)
    return newer


def _version(include: Path) -> tuple[int, ...]:
    """As the headers say; the newest, where they do not."""
    for name in ("torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"):
        path = include / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        found = re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR) (\d+)", text)
        if found:
            return tuple(map(int, found[:2]))
    return _NEWEST_STEP


def _declared(folder: Path, classes: tuple[tuple[str, str], ...]) -> dict[str, Function]:
    """By signature; of those that override each other, the last one."""
    found = {}
    for name, file in classes:
        path = folder / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        found.update({each.signature: each for each in virtual_functions(text, name)})
    return found


def _parameters(function: Function, count: int | None = None) -> str:
    return ", ".join(f"{kind} a{i}" for i, kind in enumerate(function.types[:count]))


def _forward(function: Function, count: int) -> list[str]:
    arguments = ", ".join(
        f"a{i}" if kind.rstrip().endswith(("&", "*")) else f"std::move(a{i})"
        for i, kind in enumerate(function.types[:count])
    )
    known = f"{function.name}({_parameters(function, count)}){function.suffix}"
    return [
        f"virtual {function.result} {known} = 0;",
        f"{function.result} {function.name}({_parameters(function)}){function.suffix} override "
        f"{{ return {function.name}({arguments}); }}",
    ]


def _answer(function: Function, answer: str) -> str:
    result = "" if function.result == "void" else " return {};"
    declared = f"{function.result} {function.name}({', '.join(function.types)}){function.suffix}"
    return f"{declared} override {{ {answer};{result} }}"


# ---- reading declarations


def virtual_functions(text: str, name: str) -> list[Function]:
    """Those that a class or struct of this name declares in the text, with `virtual`, `override` or `final`."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.MULTILINE)
    start = re.search(rf"\b(?:class|struct)\s+(?:[A-Z0-9_]+\s+)?{name}\b(?:\s+final)?\s*(?::[^;{{]*)?{{", text)
    if start is None:
        return []
    found = (_function(statement) for statement in _statements(text[start.end() :]))
    return [each for each in found if each is not None]


def _statements(body: str) -> Iterator[str]:
    """The declarations of a class whose opening brace is just before; without the bodies of functions."""
    statement = ""
    braces = parentheses = 0
    for character in body:
        if character in "()" and not braces:
            parentheses += 1 if character == "(" else -1
        if character in "{}" and not parentheses:  # of a body, not of a default argument
            braces += 1 if character == "{" else -1
            if braces < 0:
                return
            is_end = braces == 0
        else:
            is_end = character == ";" and not braces and not parentheses
            statement += "" if braces or is_end else character
        if is_end:
            yield statement
            statement = ""


def _function(statement: str) -> Function | None:
    statement = re.sub(r"^\s*(?:(?:public|protected|private)\s*:\s*)*", "", " ".join(statement.split()))
    statement = re.sub(r"\b[A-Z][A-Z0-9_]+\s*\(\s*\"\"\s*\)", "", statement)
    opening = next((i for i, inside in _outside(statement) if statement[i] == "(" and not inside), None)
    if opening is None:
        return None
    ends = (i for i, inside in _outside(statement, opening + 1) if statement[i] == ")" and not inside)
    closing = next(ends, len(statement))
    head, suffix = statement[:opening].split(), f" {statement[closing + 1 :]} "
    if len(head) < 2 or not ("virtual" in head or " override " in suffix or " final " in suffix):
        return None
    result = " ".join(word for word in head[:-1] if word not in ("virtual", "inline", "constexpr"))
    name = head[-1]
    while name[:1] in ("*", "&"):
        result, name = result + name[0], name[1:]
    if not result or not re.fullmatch(r"\w+", name):
        return None
    kept = "".join(f" {word}" for word in ("const", "noexcept") if f" {word} " in suffix)
    types = tuple(_type(each) for each in _split(statement[opening + 1 : closing]))
    return Function(name, result, types, kept, bool(re.search(r"=\s*0\b", suffix)))


def _outside(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Each place, and how many brackets it is in; a bracket itself is outside of its own."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] in ")>}]" and depth and text[i - 1 : i + 1] != "->":
            depth -= 1
        yield i, depth
        is_shift = text[i] == "<" and "<" in (text[i - 1 : i], text[i + 1 : i + 2])
        if text[i] in "(<{[" and not is_shift:
            depth += 1


def _split(parameters: str) -> list[str]:
    parts, last = [], 0
    for i, inside in _outside(parameters):
        if parameters[i] == "," and not inside:
            parts.append(parameters[last:i])
            last = i + 1
    parts.append(parameters[last:])
    return [part for part in parts if part.strip() not in ("", "void")]


_BUILT_IN = {"bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "const", "volatile"}


def _type(parameter: str) -> str:
    """Without the parameter's name and default."""
    default = next((i for i, inside in _outside(parameter) if parameter[i] == "=" and not inside), None)
    parameter = re.sub(r"\[\[[^]]*\]\]", "", parameter[:default]).strip()
    named = re.fullmatch(r"(.*[\s&*>])(\w+)", parameter, flags=re.DOTALL)
    if named is None or named[2] in _BUILT_IN or set(named[1].split()) <= {"const", "volatile"}:
        return parameter
    return named[1].strip()


def _bare(kind: str) -> str:
    """Without namespaces and spaces, so that c10::DataPtr and DataPtr are the same."""
    return re.sub(r"\s+", "", re.sub(r"(?:\w+\s*::\s*)+", "", kind))
