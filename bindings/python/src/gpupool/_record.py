# SPDX-License-Identifier: Apache-2.0
"""Plain data. Like a frozen dataclass, but dataclasses would double the time of import gpupool."""

from __future__ import annotations

from typing import Any


class Record:
    """Named values that do not change. Equal to a record of the same kind with equal values."""

    __slots__ = ()

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def as_dict(self) -> dict[str, Any]:
        """The values by name; records and lists of them become dicts too, as for JSON."""
        return {name: _plain(getattr(self, name)) for name in type(self).__annotations__}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in type(self).__annotations__)
        return f"{type(self).__name__}({', '.join(values)})"

    def __str__(self) -> str:
        """Several lines, if it contains records."""
        values = {name: getattr(self, name) for name in type(self).__annotations__}
        if not any(isinstance(value, Record) for value in values.values()):
            return ", ".join(f"{name} {value}" for name, value in values.items())
        width = max(map(len, values))
        lines = [type(self).__name__]
        for name, value in values.items():
            first, *rest = str(value).splitlines() or [""]
            if rest:
                lines += [name, *rest]
            else:
                lines.append(f"{name:<{width}}  {first}")
        return "\n  ".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks: a table, with nested tables for records."""
        from . import _html  # noqa: PLC0415  most programs do without

        values = {name: getattr(self, name) for name in type(self).__annotations__}
        kinds = {type(value) for value in values.values()}
        kind = kinds.pop()
        if not kinds and issubclass(kind, Record):  # one line each, with the unit that its name implies
            columns = list(kind.__annotations__)
            lines = (
                [name, *(_html.figure(name, figure) for figure in value._values())] for name, value in values.items()
            )
            return _html.table(type(self).__name__, [["", *columns], *lines])
        return _html.table(type(self).__name__, [(name, _cell(name, value)) for name, value in values.items()])

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), {name: getattr(self, name) for name in type(self).__annotations__}))

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in type(self).__annotations__)


def _restored(kind: type[Record], values: dict[str, Any]) -> Record:
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.as_dict()
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _cell(name: str, value: Any) -> object:
    from . import _html  # noqa: PLC0415

    if isinstance(value, Record):
        return _html.Markup(value._repr_html_())
    if isinstance(value, tuple) and value and isinstance(value[0], Record):
        columns = list(type(value[0]).__annotations__)
        lines = ([_html.figure(column, getattr(each, column)) for column in columns] for each in value)
        return _html.Markup(_html.table(f"{name}: {len(value)}", [columns, *lines]))
    return _html.figure(name, value)
