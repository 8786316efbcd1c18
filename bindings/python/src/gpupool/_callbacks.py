# SPDX-License-Identifier: Apache-2.0
"""User functions that the library calls.

The library gets a number as `user`, and this module looks the functions up by that number, so a late call finds nothing
instead of freed memory. An exception from a function cannot pass through the library, which is told "no" instead. If a
malloc from Python made the call, the error waits in native/hot.c until that malloc has failed, and is raised then;
otherwise it goes to sys.unraisablehook.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

from ._enums import LogLevel
from ._error import Error, check
from ._hot import is_interrupted, keep, report
from ._library import choose
from ._native import ffi, lib

OomHandler = Callable[[int, int], bool]
"""handler(size, attempt): frees something and returns True to retry the malloc of size bytes. attempt counts from 1."""
SleepHook = Callable[[int], "bool | None"]
"""hook(address): the block that sleeps or wakes alone, or 0. False refuses, or says that it failed."""
LevelName = Literal["off", "error", "warning", "info", "debug"]
LogHandler = Callable[[LogLevel, str], object]
UpstreamMalloc = Callable[[int, int], "int | None"]
"""malloc(size, stream): the address of size bytes, a multiple of 512; 0 or None for "no more memory"."""
UpstreamFree = Callable[[int, int, int], object]
"""free(address, size, stream): takes back what malloc returned. No GPU work still uses it."""

_Answer = TypeVar("_Answer")
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


# CO_GENERATOR, CO_COROUTINE and CO_ASYNC_GENERATOR of the module inspect, which takes long to import.
_RUNS_LATER = 0x20 | 0x80 | 0x200


def check_callable(name: str, function: object) -> None:
    if function is None:
        return
    if not callable(function):
        raise TypeError(f"{name} is {function!r}, which cannot be called")
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & _RUNS_LATER:
        raise TypeError(f"{name} is {function!r}, whose answer comes later; the library needs it at once")


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
    """The exception for a call that failed with `failure`: the out-of-memory handler's own error, if it raised one, or
    an interrupt. An upstream's error becomes the failure's cause."""
    result: BaseException = failure
    for each in raised:
        if not each.is_handler and isinstance(each.error, Exception):
            failure.__cause__ = each.error
        elif each.error is not result:
            if each.error.__context__ is None:
                each.error.__context__ = result
            result = each.error
    return result


def _settled(function: object, answer: _Answer) -> _Answer:
    """The answer of a user's function. Raises TypeError for one that is to be awaited, which nobody can do here, and
    which is true whatever it will say."""
    if isinstance(answer, Awaitable):
        words = f"{function!r} returned {answer!r}, which is to be awaited; the library needs the answer at once"
        if isinstance(answer, Coroutine):
            answer.close()
        raise TypeError(words)
    return answer


def _agrees(hook: SleepHook | None, address: int) -> int:
    answer = None if hook is None else _settled(hook, hook(address))
    return 1 if answer is None or answer else 0


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def gpupool_py_on_before(user: Any, pool: Any, address: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    return 1 if handlers is None else _agrees(handlers.before_release, address)


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def gpupool_py_on_after(user: Any, pool: Any, address: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    return 1 if handlers is None else _agrees(handlers.after_map, address)


# An exception, such as Ctrl-C, may come between any two lines of a callback, and even before the first.


def _keep_handlers_error(_kind: object, error: BaseException, traceback: TracebackType) -> None:
    local = traceback.tb_frame.f_locals
    raised = Raised(error.with_traceback(traceback), local.get("handler"), True)
    if not keep(_number(local["pool"]), raised):
        report([raised])


@ffi.def_extern(error=0, onerror=_keep_handlers_error)  # type: ignore[untyped-decorator]
def gpupool_py_on_oom(user: Any, pool: Any, size: int, attempt: int) -> int:
    handlers = Handlers.by_number.get(_number(user))
    handler = None if handlers is None else handlers.oom
    if handler is None or is_interrupted(_number(pool)):  # the upstream was
        return 0
    return 1 if _settled(handler, handler(size, attempt)) else 0


def _keep_upstreams_error(_kind: object, error: BaseException, traceback: TracebackType) -> None:
    upstream = Upstream.by_number.get(_number(traceback.tb_frame.f_locals["user"]))
    raised = Raised(error.with_traceback(traceback), None if upstream is None else upstream.malloc, False)
    if upstream is None or not keep(upstream.pool, raised):
        report([raised])


@ffi.def_extern(error=1, onerror=_keep_upstreams_error)  # type: ignore[untyped-decorator]
def gpupool_py_on_malloc(user: Any, size: int, stream: int, out_ptr: Any) -> int:
    upstream = Upstream.by_number.get(_number(user))
    address = 0 if upstream is None else _settled(upstream.malloc, upstream.malloc(size, stream)) or 0
    if upstream is None or not address:
        return 1
    out_ptr[0] = address
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
