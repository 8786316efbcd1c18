# SPDX-License-Identifier: Apache-2.0
"""The reference page, in the header's order and under its banners."""

import re

from ..model import Alias, Callback, Define, Enum, Function, Opaque, Struct

_WIDTH = 100


def reference_md(api):
    lines = [
        "# API reference",
        "",
        "<!-- Written by tools/apigen.py from include/gpupool/gpupool.h. Edit that. -->",
        "",
        f"Version {api.version}. The introduction (ownership, threads and streams, errors, processes, growth) is at",
        "the top of [gpupool.h](../include/gpupool/gpupool.h); this page has the declarations one by one.",
    ]
    for title, items in api.groups():
        lines += ["", f"## {(title or 'constants').capitalize()}"]
        defines = [item for item in items if isinstance(item, Define)]
        if defines:
            lines += ["", *_table(("name", "value", ""), [(f"`{d.name}`", f"`{d.value}`", d.doc) for d in defines])]
        for item in items:
            if not isinstance(item, Define):
                lines += ["", f"### {item.name}", "", "```c", *_declaration(item), "```", "", _prose(item.doc)]
                lines += _members(item)
    return "\n".join(lines) + "\n"


def _declaration(item):
    if isinstance(item, Opaque):
        return [f"typedef struct {item.name} {item.name};"]
    if isinstance(item, Alias):
        return [f"typedef {item.type} {item.name};"]
    if isinstance(item, (Enum, Struct)):
        return [f"typedef {'enum' if isinstance(item, Enum) else 'struct'} {item.name} {{ ... }} {item.name};"]
    if isinstance(item, Callback):
        return _signature(f"typedef {item.returns} (*{item.name})", item.parameters)
    assert isinstance(item, Function)
    return _signature(f"{item.returns} {item.name}", item.parameters)


def _signature(head, parameters):
    words = [f"{parameter.type} {parameter.name}," for parameter in parameters] or ["void,"]
    words[-1] = words[-1].removesuffix(",") + ");"
    lines = [f"{head}("]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append(" " * (len(head) + 1) + word)
        else:
            lines[-1] += word if lines[-1].endswith("(") else f" {word}"
    return lines


def _members(item):
    if isinstance(item, Enum):
        rows = [(f"`{v.name}`", v.value, v.doc) for v in item.values if not v.name.endswith("_FORCE32")]
        return ["", *_table(("name", "value", ""), rows)]
    if isinstance(item, Struct):
        rows = [(m.offset, f"`{m.type} {m.name}{_extent(m)}`", m.doc) for m in item.fields]
        return ["", *_table(("offset", "field", ""), rows), "", f"{item.size} bytes."]
    return []


def _extent(member):
    return "" if member.length is None else f"[{member.length}]"


def _table(head, rows):
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for *cells, doc in rows:
        words = _prose(doc).replace("\n", " ").replace("|", "\\|")
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} | {words} |")
    return lines


def _prose(doc):
    """Names become code; the errors get their own paragraph."""
    text = re.sub(r"\b(?:gpupool|GPUPOOL)_\w+(?:\(\)|\.[a-z]\w*)?", lambda name: f"`{name.group()}`", doc)
    return re.sub(r"\nErrors: ", "\n\n**Errors:** ", text)
