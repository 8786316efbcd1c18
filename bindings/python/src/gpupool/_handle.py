# SPDX-License-Identifier: Apache-2.0
"""The base of every call on a pool."""

from __future__ import annotations

from typing import Any

from ._arguments import address, size
from ._callbacks import Raised, chained
from ._enums import Status
from ._error import Error, check, failure_or_interruption
from ._hot import HotCalls
from ._native import ffi, lib
from ._owner import Owner
from ._status_errors import InvalidArgumentError, OutOfMemoryError
from ._stream import stream_number


class Handle(Owner, HotCalls):
    """Holds one of the pool's owners. Closing drops it; a call in progress on another thread holds it too, so the pool
    stays until that call returns. malloc and free come from the base class."""

    __slots__ = ("_record",)

    _owns = "memory; share the object itself, and give other processes pools of their own"

    @staticmethod
    def _number(name: str, value: Any) -> int:
        """What malloc and free take for a size, an address or a stream. Raises for anything else."""
        if name == "size":
            return size(name, value)
        return address(name, value) if name == "address" else stream_number(value)

    def _hold(self, record: Any) -> None:
        """Takes over a new record, with its owner and its reference."""
        self._record = ffi.gc(record, lib.gpupool_py_pool_forget)
        owner = ffi.gc(record, lib.gpupool_py_pool_drop)
        self._bind(owner, int(ffi.cast("uintptr_t", record)), False)

    def _let_go(self) -> None:
        """Drops the owner; the last one destroys the pool."""
        self._bind(self._record, int(ffi.cast("uintptr_t", self._record)), True)

    def _open(self) -> Any:
        """The owner, which keeps the pool alive as long as anybody holds it, even if another thread closes the pool."""
        owner = self._owner
        if self.is_closed:
            raise InvalidArgumentError("the pool is closed")
        return owner

    def _call(self, function: Any, *arguments: Any) -> None:
        self._open()
        self._ask(function, *arguments)

    def _failure(self, status: int, raised: list[Raised] | None = None) -> BaseException:
        """The exception for the call on this pool that has just failed on this thread."""
        error = failure_or_interruption(status)
        if not isinstance(error, Error):
            return error
        if self.is_closed and error.status == Status.INVALID_ARGUMENT:
            return InvalidArgumentError("the pool is closed")
        if isinstance(error, OutOfMemoryError):
            error.report = self.report()
        return chained(error, raised) if raised else error

    def report(self) -> str:
        """Explains where the pool's memory is: limit, live, cached, waiting for streams."""
        owner = self._open()
        length, room, text = ffi.new("size_t *"), 0, ffi.NULL
        while True:
            check(lib.gpupool_report(owner.handle, text, room, length))
            if length[0] < room:
                return str(ffi.string(text).decode(errors="replace"))
            room = length[0] + 1
            text = ffi.new("char[]", room)
