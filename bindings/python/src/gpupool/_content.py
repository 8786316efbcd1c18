# SPDX-License-Identifier: Apache-2.0
"""Operations on the bytes of a block, or of part of one."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._arguments import byte
from ._enums import Backend, BlockState, Kind, Status
from ._error import check, wait_for_copies
from ._hot import new_bytes
from ._native import ffi, lib
from ._owner import Owner
from ._status_errors import AsleepError, UnknownPointerError, UnsupportedError
from ._stream import Stream, StreamLike, Using, hold
from ._transfer import Transfer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._pool import Pool

# The pointer of a buffer without a block.
FREED = ffi.new("gpupool_py_block_t *")

_Out = TypeVar("_Out")
_BYTES_LIKE = "an object with a buffer, such as bytes, a bytearray or a NumPy array"


class _Held:
    """Keeps a block and a stream while they are in use."""

    __slots__ = ("_block", "_stream")

    def __init__(self, block: Any, stream: Any = None) -> None:
        self._block = block
        self._stream = stream

    def __enter__(self) -> Any:
        if not lib.gpupool_py_block_hold(self._block):
            raise UnknownPointerError("the buffer has been freed")
        if self._stream is not None:
            try:
                hold(self._stream)
            except BaseException:
                lib.gpupool_py_block_release(self._block)
                raise
        return self._block

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            lib.gpupool_py_stream_release(self._stream)
        lib.gpupool_py_block_release(self._block)


class Content(Owner):
    """Bytes on the device. While one of these calls is in progress, another thread's free() of the block waits for it;
    a later call raises UnknownPointerError."""

    __slots__ = ("_nbytes", "_number", "_offset", "_pool", "_record", "_stream")

    _owns = "block; slices (buffer[16:32]) and buffer.numpy() share it, and pool.alloc() gives another one to copy to"

    _record: Any
    """The block that it keeps."""
    _offset: int
    """The offset in the block."""
    _nbytes: int
    _pool: Pool
    _stream: StreamLike
    """Keeps a Stream from being destroyed before its blocks."""
    _number: int
    """The stream's number."""

    def _held(self) -> _Held:
        """For a `with`, which gets the block and keeps it from being freed until the end."""
        return _Held(self._record)

    def _queue(self) -> _Held:
        """The same, to queue work on the block's stream, which it keeps too. Raises InvalidArgumentError if that is a
        closed Stream."""
        stream = self._stream
        return _Held(self._record, stream._record if isinstance(stream, Stream) else None)

    # ---- what it is

    @property
    def address(self) -> int:
        """The address on the device. 0 if the buffer has no bytes."""
        record = self._record
        if record is FREED:
            raise UnknownPointerError("the buffer has been freed")
        return int(record.address) + self._offset

    @property
    def pool(self) -> Pool:
        """The pool that the block comes from."""
        return self._pool

    @property
    def nbytes(self) -> int:
        """The size in bytes, as requested."""
        return self._nbytes

    @property
    def stream(self) -> int:
        """The number of the stream that the block was allocated for."""
        return self._number

    @property
    def _element(self) -> str:
        """The type, as in NumPy's array interface."""
        return "|u1"

    @property
    def _extents(self) -> tuple[int, ...]:
        """The shape, in elements."""
        return (self._nbytes,)

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        record = self._record
        where = "freed" if record is FREED else f"at {record.address + self._offset:#x}"
        return f"<gpupool.{type(self).__name__} of {self.nbytes} bytes, {where}>"

    def record_stream(self, stream: StreamLike) -> None:
        """Tells the pool that stream uses the block too: once freed, the block is reused only when stream has passed
        the work queued on it by then."""
        with self._held() as block, Using(stream) as number:
            check(lib.gpupool_record_stream(block.pool.handle, block.address, number))

    # ---- copies

    def synchronize(self) -> None:
        """Waits for the work queued on the buffer's stream. Like everything that uses the stream, it raises
        InvalidArgumentError if that is a closed Stream."""
        with self._queue() as block:
            check(lib.gpupool_stream_synchronize(block.pool.handle, self._number))

    def copy_from_host(self, data: Any, offset: int = 0) -> None:
        """Copies bytes, or any object with a buffer such as a NumPy array, to the block from offset on, in the order of
        the buffer's stream. Non-contiguous data is copied in C order. Returns when the copy is done. Raises ValueError
        if there is no room."""
        source, start = self._source(data, offset)
        with self._queue() as block:
            self._copy(block, block.address + self._offset + start, _address(source), len(source))

    @overload
    def copy_to_host(self, *, offset: int = 0, size: int | None = None) -> bytes: ...
    @overload
    def copy_to_host(self, *, offset: int = 0, size: int | None = None, out: _Out) -> _Out: ...
    def copy_to_host(self, *, offset: int = 0, size: int | None = None, out: Any = None) -> Any:
        """A copy of size bytes from offset on, in the order of the buffer's stream: bytes, or out, which is any object
        with a writable buffer such as a NumPy array. size defaults to that of out, or to all the rest. Raises
        ValueError if there are fewer bytes."""
        result, start, size = self._target(offset, size, out)
        with self._queue() as block:
            self._copy(block, _address(ffi.from_buffer(result)), block.address + self._offset + start, size)
        return result

    def upload(self, data: Any, offset: int = 0) -> Transfer[None]:
        """Queues the copy that copy_from_host makes, without waiting for it. Later work on the buffer's stream sees the
        bytes. Raises as copy_from_host. Since 0.2."""
        source, start = self._source(data, offset)
        held = self._queue()
        with held as block:
            address = block.address + self._offset + start
            check(lib.gpupool_copy(block.pool.handle, address, _address(source), len(source), self._number))
            return Transfer(held, held.__enter__(), self._number, source, None)

    @overload
    def download(self, *, offset: int = 0, size: int | None = None) -> Transfer[bytes]: ...
    @overload
    def download(self, *, offset: int = 0, size: int | None = None, out: _Out) -> Transfer[_Out]: ...
    def download(self, *, offset: int = 0, size: int | None = None, out: Any = None) -> Transfer[Any]:
        """Queues the copy that copy_to_host makes, without waiting for it: the transfer's wait() returns the result.
        Raises as copy_to_host. Since 0.2."""
        result, start, size = self._target(offset, size, out)
        target = ffi.from_buffer(result)
        held = self._queue()
        with held as block:
            address = block.address + self._offset + start
            check(lib.gpupool_copy(block.pool.handle, _address(target), address, size, self._number))
            return Transfer(held, held.__enter__(), self._number, target, result)

    def __bytes__(self) -> bytes:
        return self.copy_to_host()

    def fill(self, value: int = 0) -> None:
        """Queues a fill with value, 0 to 255, on the buffer's stream. Raises ValueError for another value."""
        number = byte("value", value)
        with self._queue() as block:
            address = block.address + self._offset
            check(lib.gpupool_fill(block.pool.handle, address, number, self._nbytes, self._number))

    def _copy(self, block: Any, destination: int, source: int, size: int) -> None:
        pool = block.pool.handle
        check(lib.gpupool_copy(pool, destination, source, size, self._number))
        wait_for_copies(pool, self._number)

    def _source(self, data: Any, offset: int) -> tuple[Any, int]:
        """The contiguous bytes of data, and their address."""
        try:
            source = ffi.from_buffer(data)
        except TypeError:
            raise TypeError(f"data is of type {type(data).__name__}; it must be {_BYTES_LIKE}") from None
        except (ValueError, BufferError):
            source = ffi.from_buffer(memoryview(data).tobytes())
        return source, self._part(offset, len(source))

    def _target(self, offset: int, size: int | None, out: Any) -> tuple[Any, int, int]:
        """The destination of bytes of the block, their offset in it and their number."""
        try:
            target = None if out is None else ffi.from_buffer(out, require_writable=True)
        except TypeError:
            raise TypeError(f"out is of type {type(out).__name__}; it must be {_BYTES_LIKE}, and writable") from None
        if target is not None and size is not None and size != len(target):
            raise ValueError(f"size is {size}, and out has {len(target)} bytes: give one of them")
        if size is None:
            size = len(target) if target is not None else max(0, self.nbytes - offset)
        start = self._part(offset, size)
        return (new_bytes(size) if target is None else out), start, size

    def _part(self, offset: int, size: int) -> int:
        """The offset of a part that lies wholly inside this buffer."""
        start, count = operator.index(offset), operator.index(size)
        if not 0 <= start <= self.nbytes:
            raise ValueError(f"offset is {start}; it must be 0 to {self.nbytes} in a buffer of {self.nbytes} bytes")
        if not 0 <= count <= self.nbytes - start:
            raise ValueError(f"{count} bytes from offset {start} on do not fit in a buffer of {self.nbytes} bytes")
        return start

    # ---- without a copy

    def _is_on_host(self) -> bool:
        """Whether the address is also a host pointer. Simulated devices without data refuse to copy. Of memory that the
        host reaches, only theirs sleeps: AsleepError."""
        if self._pool._backend() != Backend.SIM:
            return self._pool.kind != Kind.DEVICE
        to, size = ffi.new("char *"), min(1, self.nbytes)
        with self._queue() as block:
            info = ffi.new("gpupool_block_t *")
            if block.address:
                check(lib.gpupool_block_info(block.pool.handle, block.address, info, ffi.sizeof("gpupool_block_t")))
            if info.state == BlockState.ASLEEP:
                raise AsleepError("the pool is asleep: the block's memory is away until wake()")
            copied = lib.gpupool_copy(block.pool.handle, _address(to), block.address, size, self._number)
            return bool(copied != Status.UNSUPPORTED)

    def view(self) -> memoryview:
        """The block's own bytes, writable, if the host can reach them: on a simulated device with data, and in pinned
        or managed memory. Waits for the buffer's stream first. The view keeps the block from being freed, and must
        not be used while the pool is asleep. Raises UnsupportedError, AsleepError."""
        with self._held() as block:
            if not self._is_on_host():
                raise UnsupportedError("the host cannot reach this memory; see copy_to_host")
            self.synchronize()
            start = ffi.cast("unsigned char *", block.address + self._offset)
            lib.gpupool_py_block_hold(block)
            # Anything made from the view keeps this pointer, and with it the block.
            held = ffi.gc(start, lambda _, release=lib.gpupool_py_block_release: release(block))
            return memoryview(ffi.buffer(held, self.nbytes))

    def numpy(
        self, dtype: npt.DTypeLike | None = None, shape: int | tuple[int, ...] | None = None
    ) -> np.ndarray[Any, Any]:
        """The same as a NumPy array: by default of bytes, or of an Array's own type and shape."""
        import numpy  # noqa: PLC0415  most programs do without

        own = shape is None and dtype is None
        found = numpy.frombuffer(self.view(), self._element if dtype is None else dtype)
        return found.reshape(self._extents if own else -1 if shape is None else shape)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """What numpy.asarray takes: the bytes themselves, if the host can reach them; otherwise raises TypeError."""
        import numpy  # noqa: PLC0415

        try:
            own = self.numpy()
        except UnsupportedError as error:
            raise TypeError(f"this is not a host array ({error})") from error
        return numpy.array(own, dtype=dtype) if copy else own if dtype is None else own.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, for CuPy, Numba and PyTorch: bytes on a CUDA device. The library that takes it keeps the buffer
        alive, but does not stop free() from freeing it."""
        if self._pool._backend() != Backend.CUDA or self._pool.kind == Kind.PINNED:
            raise AttributeError("__cuda_array_interface__ is for memory on a CUDA device")
        return {
            "shape": self._extents,
            "typestr": self._element,
            "data": (self.address, False),
            "version": 3,
            # It calls the legacy default stream 1; here it is 0.
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
        the legacy default stream, -1 for "no ordering, please". If it is not the buffer's, this waits for the work
        queued on the buffer's stream, and the pool remembers the stream as a user of the block. Raises BufferError for
        what is not possible without a copy."""
        from . import _dlpack  # noqa: PLC0415

        device = self.__dlpack_device__()
        if copy:
            raise BufferError("a buffer is lent without a copy and cannot make one")
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"the buffer is on device {device} and not on {tuple(dl_device)}")
        with self._held() as block:
            if device[0] == _dlpack.CPU and not self._is_on_host():
                raise BufferError("this simulated device has addresses only; see gpupool.sim.configure")
            if stream != -1:
                self._let_see(device, stream, host=stream is None and device[0] != _dlpack.CUDA)
            versioned = max_version is not None and max_version[0] >= 1
            return _dlpack.capsule(block, self.address, self._element, self._extents, device, versioned)

    def _let_see(self, device: tuple[int, int], stream: int | None, *, host: bool) -> None:
        """Ensures that DLPack's consumer sees what was written, and that the pool knows the stream it uses. The host
        may read at once."""
        if host:
            self.synchronize()
            return
        if self._pool._backend() != Backend.CUDA or stream == 0:
            raise BufferError(f"stream {stream} does not fit device {device}: the host has none, and 0 is ambiguous")
        consumer = 0 if stream in (None, 1) else stream
        if consumer != self.stream:
            self.synchronize()
            self.record_stream(consumer)


def _address(data: Any) -> int:
    return int(ffi.cast("uintptr_t", data))
