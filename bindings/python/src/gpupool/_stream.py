# SPDX-License-Identifier: Apache-2.0
"""Streams: queues of work on a device."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Union

from ._arguments import integer
from ._error import check
from ._native import ffi, lib
from ._owner import Owner
from ._status_errors import InvalidArgumentError

# The pointer of a closed stream.
_CLOSED = ffi.new("gpupool_py_stream_t *")


class CudaStream(Protocol):
    """A stream of another library that follows NVIDIA's protocol."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class TorchStream(Protocol):
    """A stream as in PyTorch."""

    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    """A stream as in CuPy."""

    @property
    def ptr(self) -> int: ...


StreamLike = Union[int, "Stream", CudaStream, TorchStream, CupyStream]
"""A stream's number (the CUstream; 0 is the legacy default stream), a Stream, or a stream of another library:
an object with __cuda_stream__(), .cuda_stream (PyTorch) or .ptr (CuPy)."""


def stream_number(stream: StreamLike) -> int:
    """The number that the library takes. TypeError: not a stream. OverflowError: no stream has such a number."""
    if type(stream) is int:
        return integer("stream", stream)
    number: object = stream
    if hasattr(stream, "__cuda_stream__"):
        number = stream.__cuda_stream__()[1]
    else:
        for attribute in ("cuda_stream", "ptr"):
            if hasattr(stream, attribute):
                number = getattr(stream, attribute)
                break
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(
            f"stream is {stream!r}, not a stream: it must be a number, or have __cuda_stream__(), .cuda_stream or .ptr"
        )
    return integer("stream", number)


class Using:
    """For a `with`, which gets the stream's number. If it is a Stream, another thread's close() waits until the end."""

    __slots__ = ("_record", "_stream")

    def __init__(self, stream: StreamLike) -> None:
        self._stream = stream
        self._record = stream._record if isinstance(stream, Stream) else None

    def __enter__(self) -> int:
        if self._record is None:
            return stream_number(self._stream)
        hold(self._record)
        return int(self._record.number)

    def __exit__(self, *error: object) -> None:
        if self._record is not None:
            lib.gpupool_py_stream_release(self._record)


def hold(record: Any) -> None:
    """Keeps a Stream's record open until gpupool_py_stream_release."""
    if not lib.gpupool_py_stream_hold(record):
        raise InvalidArgumentError("the stream is closed")


class Stream(Owner):
    """A stream created by Pool.stream(). It ends when it is closed or dropped.

    It may outlive its Pool object. Buffers of the stream keep it from being dropped. int(stream) is its number, and
    libraries that know __cuda_stream__ accept the object itself.
    """

    __slots__ = ("__weakref__", "_record")

    _owns = "queue on the device; pool.stream() makes another"

    def __init__(self, record: Any) -> None:
        self._record = record

    def _open(self) -> Any:
        """The record, which stays as long as anybody holds it, even if another thread closes the stream."""
        record = self._record
        if record is _CLOSED:
            raise InvalidArgumentError("the stream is closed")
        return record

    @property
    def is_closed(self) -> bool:
        return self._record is _CLOSED

    def __int__(self) -> int:
        return int(self._open().number)

    __index__ = __int__

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, int(self))

    def synchronize(self) -> None:
        """Waits until the stream has done all work queued on it. Raises DriverError, ForkedError, and
        InvalidArgumentError if the stream is closed."""
        record = self._record
        hold(record)
        try:
            check(lib.gpupool_stream_synchronize(record.pool.handle, record.number))
        finally:
            lib.gpupool_py_stream_release(record)

    def close(self) -> None:
        """Releases the stream from its pool and destroys it. Other pools that have seen it must release it first.
        Its buffers stay valid. Closing it again does nothing. Raises DriverError, ForkedError."""
        record = self._record
        self._record = _CLOSED
        if record is not _CLOSED:
            check(lib.gpupool_py_stream_close(record))

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<gpupool.Stream, closed>" if self.is_closed else f"<gpupool.Stream {int(self):#x}>"
