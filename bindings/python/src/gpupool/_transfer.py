# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies to and from the host."""

from __future__ import annotations

import threading
from collections.abc import Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from ._error import Error, check, wait_for_copies
from ._native import lib

_Result = TypeVar("_Result")

_LOST: list[object] = []
"""Host memory that copies may still use, because the driver refused to wait: better lost than reused."""


class Transfer(Generic[_Result]):
    """A copy between the host and a block that is queued on the block's stream: buffer.upload(), buffer.download().
    Until wait() it keeps the host's memory, the block and its stream: a free() or close() meanwhile takes effect
    afterwards. Meanwhile, do not write the source, and do not use the destination. Dropping it waits. Since 0.2.

        there = buffer.upload(numbers)
        ...                                 # work on the host while the copy is in progress
        there.wait()                        # or, in a coroutine: await there
    """

    __slots__ = ("__weakref__", "_block", "_held", "_host", "_lock", "_number", "_result")

    def __init__(self, held: Any, block: Any, number: int, host: object, result: _Result) -> None:
        self._lock = threading.Lock()
        self._held = held
        self._block = block
        self._number = number
        self._host: object = host
        self._result = result

    def wait(self) -> _Result:
        """Waits until the copy, and everything queued before it, is done. For a download, it returns the bytes, or out.
        May be called again, on any thread. Raises DriverError, ForkedError."""
        with self._lock:
            if self._held is not None:
                check(lib.gpupool_stream_synchronize(self._block.pool.handle, self._number))
                self._end()
        return self._result

    def _end(self) -> None:
        held, self._held, self._block, self._host = self._held, None, None, None
        if held is not None:
            held.__exit__(None, None, None)

    def __await__(self) -> Generator[Any, None, _Result]:
        """Waits on a thread of the event loop."""
        import asyncio  # noqa: PLC0415  most programs do without

        return asyncio.to_thread(self.wait).__await__()

    def __enter__(self) -> Transfer[_Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wait()

    def __del__(self) -> None:
        if self._held is None:
            return
        try:
            wait_for_copies(self._block.pool.handle, self._number)
        except Error:
            _LOST.append(self._host)
        finally:
            self._end()

    def __repr__(self) -> str:
        return f"<gpupool.Transfer, {'done' if self._held is None else 'under way'}>"
