# SPDX-License-Identifier: Apache-2.0
"""Functions of the user that the library calls.

The library gets a number as `user` and the functions are found by it here, so that a call that comes late finds
nothing instead of freed memory. What a function raises cannot pass through the library: it goes to
sys.unraisablehook, and the library is told "no".
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from ._enums import LogLevel
from ._error import check
from ._native import ffi, lib

OomHandler = Callable[[int, int], object]
"""handler(size, attempt): frees something and returns true to have the malloc of size bytes tried again. attempt
counts from 1."""
LogHandler = Callable[[LogLevel, str], object]
UpstreamMalloc = Callable[[int, int], "int | None"]
"""malloc(size, stream): the address of size bytes, a multiple of 512; 0 or None for "no more memory"."""
UpstreamFree = Callable[[int, int, int], object]
"""free(address, size, stream): takes back what malloc gave. No GPU work uses it any more."""

_numbers = itertools.count(1)


class Handlers:
    """What a pool calls before a malloc fails. It belongs to the Pool object, and is found as long as that lives."""

    by_number: weakref.WeakValueDictionary[int, Handlers] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.oom: OomHandler | None = None
        Handlers.by_number[self.number] = self


class Upstream:
    """The memory beneath a pool. It stays here while it has given something that it has not got back."""

    by_number: dict[int, Upstream] = {}

    def __init__(self, malloc: UpstreamMalloc, free: UpstreamFree) -> None:
        self.number = next(_numbers)
        self.malloc = malloc
        self.free = free
        self.given: dict[int, int] = {}
        self.is_closed = False
        Upstream.by_number[self.number] = self

    def close(self) -> None:
        """The Pool object goes; its blocks may stay."""
        self.is_closed = True
        self.end_if_unused()

    def end_if_unused(self) -> None:
        if self.is_closed and not self.given:
            Upstream.by_number.pop(self.number, None)


def user_pointer(number: int) -> Any:
    return ffi.cast("void *", number)


def _number(user: Any) -> int:
    return int(ffi.cast("uintptr_t", user))


def _report(function: object) -> None:
    """Reports the exception that is being handled, as Python does for finalizers."""
    kind, error, traceback = sys.exc_info()
    what = SimpleNamespace(
        exc_type=kind, exc_value=error, exc_traceback=traceback, err_msg="Exception ignored in", object=function
    )
    sys.unraisablehook(cast("sys.UnraisableHookArgs", what))


@ffi.def_extern()  # type: ignore[untyped-decorator]
def gpupool_py_on_oom(user: Any, size: int, attempt: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    handler = None if handlers is None else handlers.oom
    if handler is None:
        return 0
    try:
        return 1 if handler(size, attempt) else 0
    except BaseException:
        _report(handler)
        return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def gpupool_py_on_malloc(user: Any, size: int, stream: int, out_ptr: Any) -> int:
    upstream = Upstream.by_number.get(_number(user))
    if upstream is None:
        return 1
    try:
        address = upstream.malloc(size, stream) or 0
        out_ptr[0] = address
    except BaseException:
        _report(upstream.malloc)
        return 1
    if not address:
        return 1
    upstream.given[address] = size
    return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def gpupool_py_on_free(user: Any, ptr: int, size: int, stream: int) -> None:
    upstream = Upstream.by_number.get(_number(user))
    if upstream is None:
        return
    upstream.given.pop(ptr, None)
    try:
        upstream.free(ptr, size, stream)
    except BaseException:
        _report(upstream.free)
    upstream.end_if_unused()


_log_handler: LogHandler | None = None


@ffi.def_extern()  # type: ignore[untyped-decorator]
def gpupool_py_on_log(user: Any, level: int, message: Any) -> None:
    handler = _log_handler
    if handler is None:
        return
    try:
        handler(LogLevel(level), ffi.string(message).decode(errors="replace"))
    except BaseException:
        _report(handler)


def set_log(handler: LogHandler | None, level: LogLevel | str = LogLevel.INFO) -> None:
    """Sends lines of the log up to `level` ("off", "error", "warning", "info", "debug") to handler(level, message);
    handler None: to standard error. For the whole process.

    The handler runs on the thread that logs and must not call gpupool."""
    global _log_handler  # noqa: PLW0603
    number = LogLevel[level.upper()] if isinstance(level, str) else level
    if handler is not None:
        _log_handler = handler
    check(lib.gpupool_set_log(lib.gpupool_py_call_log if handler is not None else ffi.NULL, ffi.NULL, number))
    _log_handler = handler
