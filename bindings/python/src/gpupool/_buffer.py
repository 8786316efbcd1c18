# SPDX-License-Identifier: Apache-2.0
"""Blocks that free themselves."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._enums import Backend, Kind, Status
from ._error import check
from ._native import ffi, lib
from ._status_errors import HostOutOfMemoryError, UnknownPointerError, UnsupportedError
from ._stream import Stream, StreamLike, stream_number

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    from ._pool import Pool


# What a freed buffer points to.
_FREED = ffi.new("gpupool_py_block_t *")


class Buffer:
    """A block of a pool's memory, from Pool.alloc(). It is freed by free(), at the end of a `with`, or when it is
    dropped, on the stream that it was allocated for.

    Any thread may free it, before or after its pool. Tensors and arrays that were made of it without a copy, by
    DLPack or numpy(), keep the block until they are gone as well. A buffer that was freed raises
    UnknownPointerError.

    Other libraries take it by DLPack or by __cuda_array_interface__, as a row of bytes.
    """

    __slots__ = ("__weakref__", "_pool", "_record", "_stream", "nbytes", "stream")

    nbytes: int
    """As requested."""
    stream: int
    """The number of the stream that it was allocated for."""

    def __init__(self, pool: Pool, address: int, nbytes: int, stream: StreamLike = 0) -> None:
        """Takes over a block: address is what pool.malloc(nbytes, stream) returned. Raises InvalidArgumentError if the
        pool is closed."""
        self._take(pool, pool._open(), address, nbytes, stream)

    def _take(self, pool: Pool, owner: Any, address: int, nbytes: int, stream: StreamLike) -> None:
        self.stream = stream_number(stream)
        record = lib.gpupool_py_block_new(owner, address, self.stream)
        if not record:
            raise HostOutOfMemoryError("the host has no memory for a buffer's record")
        self._record = ffi.gc(record, lib.gpupool_py_block_forget)
        self._pool = pool
        # So that a Stream is not destroyed before its buffers.
        self._stream = stream
        self.nbytes = nbytes

    def _block(self) -> Any:
        """The record of the block, which stays as long as somebody has it, also if another thread frees the buffer."""
        record = self._record
        if record is _FREED:
            raise UnknownPointerError("the buffer has been freed")
        return record

    # ---- what it is

    @property
    def address(self) -> int:
        """On the device. 0 if the buffer has no bytes."""
        return int(self._block().address)

    @property
    def pool(self) -> Pool:
        """Where the block comes from."""
        return self._pool

    @property
    def is_freed(self) -> bool:
        return self._record is _FREED

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        record = self._record
        where = "freed" if record is _FREED else f"at {record.address:#x}"
        return f"<gpupool.Buffer of {self.nbytes} bytes, {where}>"

    # ---- its end

    def free(self) -> None:
        """Frees the block; work that is queued on its stream so far may still use it. Freeing it again does nothing.
        Never waits for the GPU. Raises UnknownPointerError if its address was freed by other means, ForkedError."""
        record = self._record
        self._record = _FREED
        if record is not _FREED:
            check(lib.gpupool_py_block_free(record))

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()

    def record_stream(self, stream: StreamLike) -> None:
        """Says that stream uses the block too: once freed, it is reused only when stream has passed the work that
        was queued on it by then."""
        block = self._block()
        check(lib.gpupool_record_stream(block.pool.handle, block.address, stream_number(stream)))

    # ---- its content

    def _queue(self) -> int:
        """The stream, to queue work on. Raises InvalidArgumentError if it is a Stream that was closed."""
        return int(self._stream) if isinstance(self._stream, Stream) else self.stream

    def synchronize(self) -> None:
        """Waits for the work queued on the buffer's stream. As everything that uses the stream, it raises
        InvalidArgumentError if that is a Stream which was closed."""
        block = self._block()
        check(lib.gpupool_stream_synchronize(block.pool.handle, self._queue()))

    def copy_from_host(self, data: Any, offset: int = 0) -> None:
        """Copies bytes, or anything with a buffer such as a NumPy array, to the block from offset on; in the order of
        the buffer's stream. Returns when it is done. Raises ValueError if there is no room."""
        source = ffi.from_buffer(data)
        self._copy(self._part(offset, len(source)), int(ffi.cast("uintptr_t", source)), len(source))

    def copy_to_host(self, offset: int = 0, size: int | None = None) -> bytes:
        """A copy of size bytes from offset on, by default of all, in the order of the buffer's stream."""
        count = self.nbytes - offset if size is None else size
        source = self._part(offset, count)
        to = ffi.new("char[]", count)
        self._copy(int(ffi.cast("uintptr_t", to)), source, count)
        return bytes(ffi.buffer(to, count))

    def fill(self, value: int = 0) -> None:
        """Queues a fill of the whole block with value, 0 to 255, on the buffer's stream."""
        block = self._block()
        check(lib.gpupool_fill(block.pool.handle, block.address, value, self.nbytes, self._queue()))

    def _part(self, offset: int, size: int) -> int:
        if offset < 0 or size < 0 or offset + size > self.nbytes:
            raise ValueError(f"bytes {offset} to {offset + size} are not all in a buffer of {self.nbytes}")
        return self.address + offset

    def _copy(self, destination: int, source: int, size: int) -> None:
        # The record keeps the pool while the calls are under way.
        block, stream = self._block(), self._queue()
        check(lib.gpupool_copy(block.pool.handle, destination, source, size, stream))
        check(lib.gpupool_stream_synchronize(block.pool.handle, stream))

    # ---- without a copy

    def _is_on_host(self) -> bool:
        """Whether the address is a pointer of the host as well. Of the simulated devices, those without data refuse
        to copy."""
        block = self._block()
        if self._pool._backend() != Backend.SIM:
            return self._pool.kind != Kind.DEVICE
        byte = ffi.new("char *")
        to, size = int(ffi.cast("uintptr_t", byte)), min(1, self.nbytes)
        return bool(lib.gpupool_copy(block.pool.handle, to, block.address, size, self._queue()) != Status.UNSUPPORTED)

    def view(self) -> memoryview:
        """The block's own bytes, writable, where the host can reach them: on a simulated device with data, and of
        pinned or managed memory. Waits for the buffer's stream first. The view keeps the block from being freed.
        Raises UnsupportedError."""
        block = self._block()
        if not self._is_on_host():
            raise UnsupportedError("the host cannot reach this memory; see copy_to_host")
        self.synchronize()
        if not lib.gpupool_py_block_hold(block):
            raise UnknownPointerError("the buffer has been freed")
        # Whatever is made of the view keeps this pointer, and with it the block.
        start = ffi.cast("unsigned char *", block.address)
        held = ffi.gc(start, lambda _, release=lib.gpupool_py_block_release: release(block))
        return memoryview(ffi.buffer(held, self.nbytes))

    def numpy(
        self, dtype: numpy.typing.DTypeLike = "uint8", shape: int | tuple[int, ...] = -1
    ) -> numpy.ndarray[Any, Any]:
        """The same as a NumPy array."""
        import numpy  # noqa: PLC0415  most programs do without

        return numpy.frombuffer(self.view(), dtype).reshape(shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, for CuPy, Numba and PyTorch: bytes on a CUDA device. The library that takes it keeps the buffer
        alive, but does not keep it from being freed by free()."""
        if self._pool._backend() != Backend.CUDA or self._pool.kind == Kind.PINNED:
            raise AttributeError("__cuda_array_interface__ is for memory of a CUDA device")
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
            # Its name for the legacy default stream, which is 0 here, is 1.
            "stream": self.stream or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        from . import _dlpack  # noqa: PLC0415  for ctypes, which most programs do without

        if self._pool._backend() != Backend.CUDA:
            return (_dlpack.CPU, 0)
        kinds = {Kind.DEVICE: _dlpack.CUDA, Kind.PINNED: _dlpack.CUDA_PINNED, Kind.MANAGED: _dlpack.CUDA_MANAGED}
        return (kinds[self._pool.kind], self._pool.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for the other library's from_dlpack. stream is the one that will use the tensor: 1 or None for
        the legacy default stream, -1 for "no ordering, please". If it is not the buffer's, this waits for what is
        queued on the buffer's stream, and the pool remembers the stream as one that uses the block.
        Raises BufferError for what cannot be had without a copy."""
        from . import _dlpack  # noqa: PLC0415

        return _dlpack.export(self, stream, max_version, dl_device, copy)
