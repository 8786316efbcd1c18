# SPDX-License-Identifier: Apache-2.0
"""Blocks that free themselves."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._arguments import integer, size
from ._content import FREED, Content
from ._error import check
from ._hot import Lender
from ._native import ffi, lib
from ._status_errors import HostOutOfMemoryError, UnsupportedError
from ._stream import StreamLike, stream_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._pool import Pool


class _Sliced(Lender, Content):
    __slots__ = ()

    def _lend(self) -> memoryview:
        """What memoryview() and other users of the buffer protocol get. They know a TypeError as "no such object"."""
        try:
            return self.view()
        except UnsupportedError as error:
            raise TypeError(f"this is not a bytes-like object ({error})") from error

    def __getitem__(self, part: slice) -> BufferSlice:
        if not isinstance(part, slice):
            raise TypeError(
                f"the index is {part!r}; a buffer has slices, such as buffer[16:32]; copy_to_host(offset=16, size=1) "
                "gives one byte"
            )
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise ValueError(f"the step is {step}; the bytes of a slice lie in a row")
        return BufferSlice(self, start, max(0, stop - start))


class Owned(Content):
    """A whole block, owned by this object."""

    __slots__ = ("__weakref__",)

    def _take(self, pool: Pool, owner: Any, address: int, nbytes: int, stream: StreamLike, number: int) -> None:
        self._number = number
        record = lib.gpupool_py_block_new(owner, address, number)
        if not record:
            raise HostOutOfMemoryError("the host has no memory for a buffer's record")
        self._record = ffi.gc(record, lib.gpupool_py_block_forget)
        self._offset = 0
        self._pool = pool
        self._stream = stream
        self._nbytes = nbytes

    @property
    def is_freed(self) -> bool:
        return self._record is FREED

    def free(self) -> None:
        """Frees the block; work already queued on its stream may still use it. Freeing it again does nothing. Never
        waits for the GPU. Raises UnknownPointerError if its address was freed by other means, ForkedError."""
        record = self._record
        self._record = FREED
        if record is not FREED:
            check(lib.gpupool_py_block_free(record))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()


class Buffer(Owned, _Sliced):
    """A block of a pool's memory, from Pool.alloc(). free(), the end of a `with`, or dropping it frees it, on the
    stream that it was allocated for.

    Any thread may free it, before or after its pool. Tensors and arrays made from it without a copy, by DLPack or
    numpy(), and its slices (buffer[16:32]) also keep the block until they are gone. Using a freed buffer raises
    UnknownPointerError.

    Other libraries accept it through DLPack or __cuda_array_interface__, as a one-dimensional array of bytes. Where
    the host can reach the memory, as view() says, memoryview(buffer) and numpy.frombuffer(buffer, dtype) borrow it, and
    keep the block; elsewhere they raise TypeError.
    """

    __slots__ = ()

    def __init__(self, pool: Pool, address: int, nbytes: int, stream: StreamLike = 0) -> None:
        """Takes over a block: address is what pool.malloc(nbytes, stream) returned. Raises InvalidArgumentError if the
        pool is closed."""
        self._take(
            pool, pool._open(), integer("address", address), size("nbytes", nbytes), stream, stream_number(stream)
        )


class Part(Content):
    """A part of a block, which it keeps from being freed until it is dropped or released."""

    __slots__ = ("__weakref__",)

    def _take_part(self, whole: Content, offset: int, nbytes: int) -> None:
        with whole._held() as block:
            lib.gpupool_py_block_hold(block)
            # Of its own: it would keep the record of the whole, which keeps another one if that is a slice too.
            own = ffi.cast("gpupool_py_block_t *", block)
            self._record = ffi.gc(own, lib.gpupool_py_block_release)
        self._offset = whole._offset + offset
        self._pool = whole._pool
        self._stream = whole._stream
        self._number = whole._number
        self._nbytes = nbytes

    def release(self) -> None:
        """Releases the block, and frees it if nothing else keeps it. Releasing it again does nothing."""
        self._record = FREED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class BufferSlice(Part, _Sliced):
    """A part of a Buffer, from buffer[start:stop]: the same bytes, with the same methods. It keeps the block from being
    freed until it is dropped or released. Since 0.2."""

    __slots__ = ()

    def __init__(self, whole: _Sliced, offset: int, nbytes: int) -> None:
        self._take_part(whole, offset, nbytes)
