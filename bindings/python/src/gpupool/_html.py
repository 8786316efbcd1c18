# SPDX-License-Identifier: Apache-2.0
"""Tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable
from enum import Enum
from typing import Any

_LEFT = ' style="text-align:left"'


def in_words(size: int) -> str:
    """Bytes, such as "2.5 MiB"."""
    power = max(0, min(4, (size.bit_length() - 1) // 10))
    return f"{size / 1024**power:.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def table(title: str, rows: Iterable[Iterable[object]]) -> str:
    """A table of strings; those that are Markup stay as they are."""
    lines = "".join(f"<tr>{''.join(f'<td{_LEFT}>{_cell(each)}</td>' for each in row)}</tr>" for row in rows)
    return f"<table><caption{_LEFT}>{html.escape(title)}</caption>{lines}</table>"


class Markup(str):
    """HTML that is written unchanged."""

    __slots__ = ()


def _cell(value: object) -> str:
    return str(value) if isinstance(value, Markup) else html.escape(str(value))


def bar(part: int, whole: int) -> Markup:
    """A bar that shows a share of a whole."""
    share = 100 * part / whole if whole else 0.0
    return Markup(
        f'<div style="width:12em;border:1px solid"><div style="width:{min(share, 100):.1f}%;background:#4a90d9">&nbsp;'
        f"</div></div>{share:.1f} %"
    )


def figure(name: str, value: Any) -> object:
    """A figure, with its unit if its name says that it is in bytes; an enum member by its name."""
    if isinstance(value, Enum) and value.name:
        return value.name.lower()
    return in_words(value) if name.endswith("bytes") and isinstance(value, int) else value
