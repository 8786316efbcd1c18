# SPDX-License-Identifier: Apache-2.0
"""User functions that the library calls.

The library gets a number as `user`, and this module looks the functions up by that number, so a late call finds nothing
instead of freed memory. An exception from a function cannot pass through the library, which is told "no" instead. If a
malloc from Python made the call, the error waits in native/hot.c until that malloc has failed, and is raised then;
otherwise it leaves the callback, and cffi reports it to sys.unraisablehook.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from ._enums import LogLevel
from ._error import Error, check
from ._hot import keep
from ._library import choose
from ._native import ffi, lib

OomHandler = Callable[[int, int], object]
"""handler(size, attempt): frees something and returns true to retry the malloc of size bytes. attempt counts from 1."""
SleepHook = Callable[[int], object]
"""hook(address): the block that sleeps or wakes alone, or 0. False refuses, or says that it failed."""
LevelName = Literal["off", "error", "warning", "info", "debug"]
LogHandler = Callable[[LogLevel, str], object]
UpstreamMalloc = Callable[[int, int], "int | None"]
"""malloc(size, stream): the address of size bytes, a multiple of 512; 0 or None for "no more memory"."""
UpstreamFree = Callable[[int, int, int], object]
"""free(address, size, stream): takes back what malloc returned. No GPU work still uses it."""

_numbers = itertools.count(1)


class Handlers:
    """What a pool calls before a malloc fails, and around its sleep. It belongs to the Pool object, and can be found as
    long as that lives."""

    by_number: weakref.WeakValueDictionary[int, Handlers] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.oom: OomHandler | None = None
        self.before_release: SleepHook | None = None
        self.after_map: SleepHook | None = None
        Handlers.by_number[self.number] = self


class Upstream:
    """The source of a pool's memory. It stays here until all memory that it supplied has come back."""

    by_number: dict[int, Upstream] = {}

    def __init__(self, malloc: UpstreamMalloc, free: UpstreamFree) -> None:
        self.number = next(_numbers)
        self.pool = 0
        """The pool's handle, as a number."""
        self.malloc = malloc
        self.free = free
        self.given: dict[int, int] = {}
        self.is_closed = False
        Upstream.by_number[self.number] = self

    def close(self) -> None:
        """The Pool object goes away; its blocks may stay."""
        self.is_closed = True
        self.end_if_unused()

    def end_if_unused(self) -> None:
        if self.is_closed and not self.given:
            Upstream.by_number.pop(self.number, None)


def check_callable(name: str, function: object) -> None:
    if function is not None and not callable(function):
        raise TypeError(f"{name} is {function!r}, which cannot be called")


def user_pointer(number: int) -> Any:
    return ffi.cast("void *", number)


def _number(user: Any) -> int:
    return int(ffi.cast("uintptr_t", user))


class Raised(NamedTuple):
    """What a user function raised within a call."""

    error: BaseException
    function: object
    is_handler: bool


def chained(failure: Error, raised: list[Raised]) -> BaseException:
    """The exception for a call that failed with `failure`: the out-of-memory handler's own error, if it raised one. An
    upstream's error becomes the failure's cause."""
    result: BaseException = failure
    for each in raised:
        if not each.is_handler:
            failure.__cause__ = each.error
        elif each.error is not result:
            if each.error.__context__ is None:
                each.error.__context__ = result
            result = each.error
    return result


def _agrees(hook: SleepHook | None, address: int) -> int:
    answer = None if hook is None else hook(address)
    return 1 if answer is None or answer else 0


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def gpupool_py_on_before(user: Any, pool: Any, address: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    return 1 if handlers is None else _agrees(handlers.before_release, address)


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def gpupool_py_on_after(user: Any, pool: Any, address: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    return 1 if handlers is None else _agrees(handlers.after_map, address)


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def gpupool_py_on_oom(user: Any, pool: Any, size: int, attempt: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    handler = None if handlers is None else handlers.oom
    if handler is None:
        return 0
    try:
        return 1 if handler(size, attempt) else 0
    except BaseException as error:
        if not keep(_number(pool), Raised(error, handler, True)):
            raise
        return 0


@ffi.def_extern(error=1)  # type: ignore[untyped-decorator]
def gpupool_py_on_malloc(user: Any, size: int, stream: int, out_ptr: Any) -> int:
    upstream = Upstream.by_number.get(_number(user))
    if upstream is None:
        return 1
    try:
        address = upstream.malloc(size, stream) or 0
        out_ptr[0] = address
    except BaseException as error:
        if not keep(upstream.pool, Raised(error, upstream.malloc, False)):
            raise
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
    finally:
        upstream.end_if_unused()


_log_handler: LogHandler | None = None


@ffi.def_extern()  # type: ignore[untyped-decorator]
def gpupool_py_on_log(user: Any, level: int, message: Any) -> None:
    handler = _log_handler
    if handler is not None:
        handler(LogLevel(level), ffi.string(message).decode(errors="replace"))


def set_log(handler: LogHandler | None, level: LogLevel | LevelName = LogLevel.INFO) -> None:
    """Sends lines of the log up to `level` ("off", "error", "warning", "info", "debug") to handler(level, message);
    handler None: to standard error. Applies to the whole process.

    The handler runs on the thread that logs, with no lock held, and may call gpupool. Raises ValueError for another
    level, TypeError for a handler that cannot be called."""
    global _log_handler  # noqa: PLW0603
    check_callable("handler", handler)
    number = choose(LogLevel, level)
    if handler is not None:
        _log_handler = handler
    check(lib.gpupool_set_log(lib.gpupool_py_call_log if handler is not None else ffi.NULL, ffi.NULL, number))
    _log_handler = handler
