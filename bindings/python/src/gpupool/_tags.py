# SPDX-License-Identifier: Apache-2.0
"""Tags, which follow the context.

The library's tags belong to a thread, and coroutines take turns on one. So the tags of a context are in a ContextVar,
and a malloc from Python first makes the thread's tags those of its context, if they are others; native/hot.c compares
them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ._error import check
from ._hot import applied_tags, follow_tags
from ._native import lib

_Function = TypeVar("_Function", bound=Callable[..., Any])


def text_of(name: str, text: object) -> bytes:
    """What the library takes for a text. Raises TypeError, ValueError."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is {text!r}, not a string")
    if "\0" in text:
        raise ValueError(f"{name} is {text!r}, with a zero inside")
    return text.encode(errors="surrogateescape")


class tag:
    """Reports and recordings show this name, of 1 to 63 bytes, for everything that is allocated inside:

        with gpupool.tag("kv cache"):
            cache = pool.alloc(1 << 30)

    Tags nest; the innermost counts. Also a decorator, of coroutine functions too. A tag belongs to the context, as
    contextvars do: it stays with its task across every await, goes along with asyncio.to_thread, and does not reach
    other threads. A generator has its caller's context, so its tags count there too until it leaves them. Mallocs of
    PyTorch, which Python does not see, count for the tag that their thread used last: docs/watch.md. Raises
    InvalidArgumentError. Since 0.2."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = text_of("name", name)

    def __enter__(self) -> None:
        inside = _Inside(self, _current.get())
        follow_tags(_current.get, _follow)
        _follow(inside)
        _current.set(inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        rest = _without(self, _current.get())
        _current.set(rest)
        _follow(rest)

    def __call__(self, function: _Function) -> _Function:
        import inspect  # noqa: PLC0415  twice as slow to import as the rest of this package

        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function!r} is a generator, and runs when the tag has ended: use `with` inside it")

        @functools.wraps(function)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        @functools.wraps(function)
        async def coroutine_wrapper(*arguments: Any, **named: Any) -> Any:
            with self:
                return await function(*arguments, **named)

        return coroutine_wrapper if inspect.iscoroutinefunction(function) else wrapper  # type: ignore[return-value]


class _Inside(NamedTuple):
    """The innermost tag, and what it is in."""

    tag: tag
    outer: _Inside | None


def _without(ended: tag, tags: _Inside | None) -> _Inside | None:
    """Another tag may have begun since and not ended yet, as in a generator."""
    if tags is None or tags.tag is ended:
        return None if tags is None else tags.outer
    return _Inside(tags.tag, _without(ended, tags.outer))


class _Thread(threading.local):
    applied: _Inside | None = None
    """What this thread has told the library."""


_current: ContextVar[_Inside | None] = ContextVar("gpupool.tags", default=None)
_thread = _Thread()


def _follow(wanted: _Inside | None) -> None:
    """Makes this thread's tags those. Raises InvalidArgumentError for a name that cannot be one."""
    levels = []
    while wanted is not None:
        levels.append(wanted)
        wanted = wanted.outer
    while (applied := _thread.applied) is not None and all(applied is not level for level in levels):
        lib.gpupool_tag_pop()
        _apply(applied.outer)
    missing = levels if applied is None else levels[: next(i for i, each in enumerate(levels) if each is applied)]
    for level in reversed(missing):
        check(lib.gpupool_tag_push(level.tag._name))
        _apply(level)


def _apply(tags: _Inside | None) -> None:
    _thread.applied = tags
    applied_tags(tags)


def follow_context() -> None:
    """Makes this thread's tags those of the context, for mallocs that Python does not see."""
    if _thread.applied is not (tags := _current.get()):
        _follow(tags)
