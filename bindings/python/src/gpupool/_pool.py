# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ._buffer import Buffer
from ._callbacks import Handlers, OomHandler, Upstream, UpstreamFree, UpstreamMalloc, user_pointer
from ._enums import STREAM_UNKNOWN, Backend, Flag, Kind, Mode
from ._error import check
from ._library import choose, device_info
from ._native import ffi, lib
from ._statistics import Watched
from ._status_errors import HostOutOfMemoryError, InvalidArgumentError
from ._stream import Stream, StreamLike, stream_number
from ._structs import DeviceInfo

_ALIGNMENT = 512


class Pool(Watched):
    """A pool of a device's memory, which hands out blocks quickly and reserves little more than is live.

        with gpupool.Pool(fraction=0.9) as pool, pool.alloc(1 << 20) as buffer:
            tensor = torch.from_dlpack(buffer)

    Everything may be called from any thread. The library is called without Python's lock held. Sizes are in bytes.
    """

    device: int
    kind: Kind

    def __init__(
        self,
        device: int = 0,
        *,
        backend: Backend | str = Backend.AUTO,
        mode: Mode | str = Mode.AUTO,
        kind: Kind | str = Kind.DEVICE,
        fraction: float = 0.0,
        limit_bytes: int = 0,
        slack: float = 0.0,
        max_chunk_bytes: int = 0,
        peers: Sequence[int] = (),
        capture_aware: bool = False,
        upstream: tuple[UpstreamMalloc, UpstreamFree] | None = None,
    ) -> None:
        """Takes no memory from the device yet. 0 stands for the default everywhere.

        backend: "auto" (CUDA where there is a usable GPU, else the simulated device), "cuda" or "sim".
        mode: "vmm", "driver" or "auto"; kind: "device", "pinned" (on the host) or "managed".
        fraction, limit_bytes: what may be reserved, as a part of the device's memory and in bytes; the smaller holds.
        slack: how much more than the live peak may be reserved to save driver calls: 0.1 is 10 per cent.
        max_chunk_bytes: the largest chunk, a power of two from 2 MiB.
        peers: other devices that may access this pool's memory.
        capture_aware: ask at every call whether the stream captures a graph; see gpupool.h.
        upstream: the functions (malloc(size, stream) -> address, free(address, size, stream)) that supply the memory.

        Raises InvalidArgumentError, UnavailableError, UnsupportedError, DriverError, and ValueError for names.
        """
        config = ffi.new("gpupool_config_t *")
        check(lib.gpupool_config_init(config, ffi.sizeof("gpupool_config_t")))
        config.flags = Flag.CAPTURE_AWARE if capture_aware else 0
        config.device = device
        config.backend = choose(Backend, backend)
        wanted = choose(Mode, mode)
        config.mode = Mode.UPSTREAM if upstream is not None and wanted == Mode.AUTO else wanted
        config.kind = choose(Kind, kind)
        config.fraction = fraction
        config.limit_bytes = limit_bytes
        config.slack = slack
        config.max_chunk_bytes = max_chunk_bytes
        peer_numbers = ffi.new("int32_t[]", list(peers))
        config.peers = peer_numbers
        config.peer_count = len(peers)
        if upstream is not None:
            memory = Upstream(*upstream)
            config.upstream_malloc = lib.gpupool_py_call_malloc
            config.upstream_free = lib.gpupool_py_call_free
            config.upstream_user = user_pointer(memory.number)
            weakref.finalize(self, memory.close).atexit = False
        handle = ffi.new("gpupool_t **")
        check(lib.gpupool_create(config, handle))
        self._take(handle[0], device, choose(Kind, kind), choose(Backend, backend), is_default=False)

    def _take(self, handle: Any, device: int, kind: Kind, backend: Backend, *, is_default: bool) -> None:
        record = lib.gpupool_py_pool_new(handle, is_default)
        if not record:
            lib.gpupool_destroy(handle)
            raise HostOutOfMemoryError("the host has no memory for a pool's record")
        self._hold(record)
        self.device = device
        self.kind = kind
        self._configured_backend = backend
        self._handlers = Handlers()
        self._info: DeviceInfo | None = None
        pools[self._handlers.number] = self

    def close(self) -> None:
        """Gives cached memory back and refuses everything from now on, but what its buffers and streams do; the rest
        goes with the last of them. Dropping the pool does the same. Closing it again does nothing. May wait for the
        GPU. Raises InvalidArgumentError for a default pool, which belongs to the process."""
        owner = self._owner
        if self.is_closed:
            return
        if owner.is_default:
            raise InvalidArgumentError("a default pool belongs to the process and cannot be closed")
        self._let_go()
        # Buffers and streams keep the pool, but need not keep its cache. In a forked child there is nothing to give.
        lib.gpupool_empty(owner.handle, ffi.NULL)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._record.is_default:
            self.close()

    def __repr__(self) -> str:
        return f"<gpupool.Pool of device {self.device}, {self.kind.name.lower()}{', closed' * self.is_closed}>"

    # ---- memory

    def malloc_aligned(self, size: int, alignment: int, stream: StreamLike = 0) -> int:
        """What malloc does, aligned to a power of two of up to 2 MiB."""
        address = ffi.new("gpupool_ptr_t *")
        self._call(lib.gpupool_malloc_aligned, size, alignment, stream_number(stream), address)
        return int(address[0])

    def alloc(self, size: int, stream: StreamLike = 0, *, alignment: int = 512) -> Buffer:
        """A block of size bytes for work on stream, which frees itself. Raises as malloc."""
        owner = self._open()
        address = self.malloc(size, stream) if alignment == _ALIGNMENT else self.malloc_aligned(size, alignment, stream)
        buffer = Buffer.__new__(Buffer)
        try:
            buffer._take(self, owner, address, size, stream)
        except BaseException:
            lib.gpupool_free(owner.handle, address, STREAM_UNKNOWN)
            raise
        return buffer

    def record_stream(self, address: int, stream: StreamLike) -> None:
        """Says that stream uses the block too: once freed, it is reused only when stream has passed the work that was
        queued on it by then. Raises UnknownPointerError, InvalidArgumentError (STREAM_UNKNOWN), ForkedError."""
        self._call(lib.gpupool_record_stream, address, stream_number(stream))

    # ---- streams and data

    def stream(self) -> Stream:
        """A new stream on the pool's device that does not synchronise with the legacy default stream. Streams of
        other libraries can be used as well, without this. Raises DriverError, ForkedError."""
        number = ffi.new("gpupool_stream_t *")
        owner = self._open()
        self._call(lib.gpupool_stream_create, number)
        record = lib.gpupool_py_stream_new(owner, number[0])
        if not record:
            lib.gpupool_stream_destroy(owner.handle, number[0])
            raise HostOutOfMemoryError("the host has no memory for a stream's record")
        return Stream(ffi.gc(record, lib.gpupool_py_stream_forget))

    def release_stream(self, stream: StreamLike) -> None:
        """Call it before another library destroys a stream that this pool has seen: its free memory then serves other
        streams. Live blocks of it stay valid. Never waits for the GPU. Raises DriverError, ForkedError, and
        InvalidArgumentError for a stream that is capturing."""
        self._call(lib.gpupool_release_stream, stream_number(stream))

    def park_stream(self, stream: StreamLike) -> None:
        """Call it after each free on a stream of another library that does not tell when it destroys streams: the pool
        does not touch it until it is named again, by a malloc for example. Its memory stays its own. Never waits for
        the GPU. Raises DriverError, ForkedError, and InvalidArgumentError for a stream that is capturing."""
        self._call(lib.gpupool_park_stream, stream_number(stream))

    def synchronize(self) -> None:
        """Waits until every stream that the pool has seen has passed the work queued on it so far, and makes freed
        blocks that waited for them free to hand out. Raises DriverError, ForkedError."""
        self._call(lib.gpupool_synchronize)

    def copy(self, destination: int, source: int, size: int, stream: StreamLike = 0) -> None:
        """Queues a copy of size bytes between addresses of the device or of the host. Host memory must stay valid
        until the stream has passed. Raises DriverError, InvalidArgumentError, UnsupportedError (a simulated device
        without data)."""
        self._call(lib.gpupool_copy, destination, source, size, stream_number(stream))

    def fill(self, address: int, value: int, size: int, stream: StreamLike = 0) -> None:
        """Queues a fill of size bytes with value, 0 to 255. Raises DriverError, InvalidArgumentError."""
        self._call(lib.gpupool_fill, address, value, size, stream_number(stream))

    # ---- keeping memory, and giving it back

    def empty_cache(self) -> int:
        """Gives every cached chunk back to the driver, so that reserved falls to what live blocks touch; returns the
        bytes. Waits for streams that may still use freed memory. Raises DriverError, ForkedError."""
        released = ffi.new("uint64_t *")
        self._call(lib.gpupool_empty, released)
        return int(released[0])

    def trim(self, target_bytes: int) -> int:
        """Gives cached chunks back, the oldest first, until at most target_bytes are reserved or nothing more can be
        given back; returns the bytes. Waits and raises as empty_cache."""
        released = ffi.new("uint64_t *")
        self._call(lib.gpupool_trim, target_bytes, released)
        return int(released[0])

    def reserve(self, target_bytes: int, stream: StreamLike = 0) -> None:
        """Creates memory until target_bytes are reserved, ready for stream. Keeps what it got if it cannot get all.
        Raises OverLimitError, OutOfMemoryError, DriverError, ForkedError."""
        self._call(lib.gpupool_reserve, target_bytes, stream_number(stream))

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        """Limits reserved memory to a fraction of the device's, in (0, 1], in place of any other limit. Cached memory
        above it is given back. Raises InvalidArgumentError, OverLimitError (live blocks hold more)."""
        self._call(lib.gpupool_set_fraction, fraction)

    def set_limit(self, limit_bytes: int) -> None:
        """The same in bytes; 0 takes the limit away."""
        self._call(lib.gpupool_set_limit, limit_bytes)

    def set_oom_handler(self, handler: OomHandler | None) -> None:
        """Sets what is asked before a malloc of this pool fails: handler(size, attempt) frees something and returns
        true to have it tried again. It runs on the thread of the malloc and may use any pool. None: no handler. The
        old handler may still be running on another thread when this returns."""
        self._handlers.oom = handler
        function = lib.gpupool_py_call_oom if handler is not None else ffi.NULL
        self._call(lib.gpupool_set_oom_handler, function, user_pointer(self._handlers.number))

    # ---- the device

    def device_info(self) -> DeviceInfo:
        """The device as it is now. Raises DriverError."""
        return device_info(self.device, self._configured_backend)

    def _backend(self) -> Backend:
        if self._info is None:
            self._info = self.device_info()
        return self._info.backend


pools: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
"""Every pool that Python knows."""

_default_pools: dict[int, Pool] = {}


def default_pool(device: int = 0) -> Pool:
    """The one pool of a device that everything in this process shares, in any language, created on first use with
    defaults; GPUPOOL_BACKEND, GPUPOOL_FRACTION and GPUPOOL_LIMIT in the environment are heeded. Raises as Pool."""
    handle = ffi.new("gpupool_t **")
    check(lib.gpupool_default_pool(device, handle))
    known = _default_pools.get(device)
    # After fork, the child has another one.
    if known is None or known._record.handle != handle[0]:
        known = Pool.__new__(Pool)
        known._take(handle[0], device, Kind.DEVICE, Backend.AUTO, is_default=True)
        _default_pools[device] = known
    return known
