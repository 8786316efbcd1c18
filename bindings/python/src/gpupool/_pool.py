# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._arguments import address as address_of
from ._arguments import byte, device_and_backend, device_number, integer, nanoseconds, real, size_or_share
from ._arguments import share as share_of
from ._arguments import size as size_of
from ._array import Array
from ._buffer import Buffer, Owned
from ._callbacks import (
    Handlers,
    OomHandler,
    SleepHook,
    Upstream,
    UpstreamFree,
    UpstreamMalloc,
    check_callable,
    user_pointer,
)
from ._debug import Debugged
from ._enums import STREAM_UNKNOWN, Backend, Flag, Kind, Mode
from ._error import Error, check
from ._exports import Exporting
from ._library import BackendName, choose, device_info
from ._native import ffi, lib
from ._sleep import Sleeping
from ._statistics import use_in_words
from ._status_errors import HostOutOfMemoryError, InvalidArgumentError
from ._stream import Stream, StreamLike, Using
from ._structs import DeviceInfo

if TYPE_CHECKING:
    import numpy.typing as npt

_Owned = TypeVar("_Owned", bound=Owned)
_ALIGNMENT = 512

ModeName = Literal["auto", "vmm", "driver", "upstream"]
KindName = Literal["device", "pinned", "managed"]


class Pool(Exporting, Debugged, Sleeping):
    """A pool of a device's memory, which hands out blocks quickly and reserves little more than live blocks need.

        with gpupool.Pool(fraction=0.9) as pool, pool.alloc(1 << 20) as buffer:
            tensor = torch.from_dlpack(buffer)

    Any thread may call any method. Calls of the library do not hold Python's lock. Sizes are in bytes.
    """

    __slots__ = ("__weakref__", "_configured_backend", "_device", "_handlers", "_info", "_kind")

    def __init__(
        self,
        device: int | str = 0,
        *,
        backend: Backend | BackendName = Backend.AUTO,
        mode: Mode | ModeName = Mode.AUTO,
        kind: Kind | KindName = Kind.DEVICE,
        limit: int | float | str | None = None,
        fraction: float | str = 0.0,
        limit_bytes: int | str = 0,
        slack: float = 0.0,
        max_chunk_bytes: int | str = 0,
        peers: Sequence[int] = (),
        capture_aware: bool = False,
        share: str | None = None,
        guaranteed_bytes: int | str = 0,
        share_wait: float = 0.0,
        priority: int = 0,
        idle_seconds: float = 0.0,
        upstream: tuple[UpstreamMalloc, UpstreamFree] | None = None,
    ) -> None:
        """Takes no memory from the device yet. 0 always means the default. Sizes may be strings: "8GiB".

        device: its number, or a name that may include the backend: "cuda:1", "sim".
        backend: "auto" (CUDA if there is a usable GPU, else the simulated device), "cuda" or "sim".
        mode: "vmm", "driver" or "auto"; kind: "device", "pinned" (on the host) or "managed".
        limit: how much may be reserved: "8GiB", "40%" of the device's memory, bytes as an int, or a share as a float.
        fraction, limit_bytes: the same, as a share and in bytes; the smaller applies, and a smaller GPUPOOL_LIMIT,
        GPUPOOL_FRACTION or GPUPOOL_CAP in the environment holds instead (not for "pinned"; since 0.2).
        slack: how much above the live peak may be reserved to save driver calls: 0.1 is 10 per cent. max_chunk_bytes:
        the largest chunk, a power of two from 2 MiB.
        peers: other devices that may access this pool's memory.
        capture_aware: ask at every call whether the stream captures a graph; see gpupool.h.
        share: the group of processes with which to share the device's memory; None: as GPUPOOL_SHARE says. Since 0.2.
        guaranteed_bytes: this pool's guaranteed part of the group's memory. Since 0.2.
        share_wait: the seconds that a malloc waits for neighbours to give memory back; 0: 0.05. Since 0.2.
        priority: decides which member gives first and which gets first, from -8 to 8. Since 0.2.
        idle_seconds: after so long without a malloc, cached memory goes back to the device; 0: as GPUPOOL_IDLE says;
        -1: never. Since 0.2.
        upstream: the functions (malloc(size, stream) -> address, free(address, size, stream)) that supply the memory.

        Raises InvalidArgumentError, UnavailableError, UnsupportedError, DriverError, and ValueError for names.
        """
        config = ffi.new("gpupool_config_t *")
        check(lib.gpupool_config_init(config, ffi.sizeof("gpupool_config_t")))
        config.flags = Flag.CAPTURE_AWARE if capture_aware else 0
        config.device, chosen = device_and_backend(device, choose(Backend, backend))
        config.backend = chosen
        wanted = choose(Mode, mode)
        config.mode = Mode.UPSTREAM if upstream is not None and wanted == Mode.AUTO else wanted
        config.kind = choose(Kind, kind)
        config.fraction, config.limit_bytes = share_of("fraction", fraction), size_of("limit_bytes", limit_bytes)
        if limit is not None:
            if config.fraction or config.limit_bytes:
                raise InvalidArgumentError("limit stands for fraction and limit_bytes: give either it or them")
            config.limit_bytes, config.fraction = size_or_share("limit", limit)
        config.slack = real("slack", slack)
        config.max_chunk_bytes = size_of("max_chunk_bytes", max_chunk_bytes)
        peer_numbers = ffi.new("int32_t[]", [device_number("peers", peer) for peer in peers])
        config.peers = peer_numbers
        config.peer_count = len(peers)
        group = ffi.NULL if share is None else ffi.new("char[]", share.encode())
        config.share = group
        config.guaranteed_bytes = size_of("guaranteed_bytes", guaranteed_bytes)
        config.share_wait_ns = nanoseconds("share_wait", share_wait)
        config.priority = integer("priority", priority, -(2**31), 2**31 - 1)
        config.idle_seconds = real("idle_seconds", idle_seconds)
        if upstream is not None:
            for name, given in zip(("upstream's malloc", "upstream's free"), upstream, strict=True):
                check_callable(name, given)
            memory = Upstream(*upstream)
            config.upstream_malloc = lib.gpupool_py_call_malloc
            config.upstream_free = lib.gpupool_py_call_free
            config.upstream_user = user_pointer(memory.number)
            weakref.finalize(self, memory.close).atexit = False
        handle = ffi.new("gpupool_t **")
        check(lib.gpupool_create(config, handle))
        if upstream is not None:
            memory.pool = int(ffi.cast("uintptr_t", handle[0]))
        self._take(handle[0], config.device, Kind(config.kind), chosen, is_default=False)

    def _take(self, handle: Any, device: int, kind: Kind, backend: Backend, *, is_default: bool) -> None:
        record = lib.gpupool_py_pool_new(handle, is_default)
        if not record:
            lib.gpupool_destroy(handle)
            raise HostOutOfMemoryError("the host has no memory for a pool's record")
        self._hold(record)
        self._device = device
        self._kind = kind
        self._configured_backend = backend
        self._handlers = Handlers()
        self._info: DeviceInfo | None = None
        pools[self._handlers.number] = self

    def close(self) -> None:
        """Gives cached memory back and refuses all further calls except those of its buffers and streams; the rest goes
        with the last of them. Dropping the pool does the same. Closing it again does nothing. May wait for the GPU.
        Raises InvalidArgumentError for a default pool, which belongs to the process."""
        owner = self._owner
        if self.is_closed:
            return
        if owner.is_default:
            raise InvalidArgumentError("a default pool belongs to the process and cannot be closed")
        self._let_go()
        # Buffers and streams keep the pool, but need not keep its cache. A forked child has nothing to give.
        lib.gpupool_empty(owner.handle, ffi.NULL)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._record.is_default:
            self.close()

    def __repr__(self) -> str:
        kind = "" if self.kind == Kind.DEVICE else f", {self.kind.name.lower()}"
        try:
            where = f"<gpupool.Pool on {self._backend().name.lower()}:{self.device}{kind}"
            return f"{where}, closed>" if self.is_closed else f"{where}: {use_in_words(self.stats())}>"
        except Error:  # closed meanwhile, or the device cannot be asked in a forked child
            return f"<gpupool.Pool on device {self.device}{kind}>"

    def create_child(self) -> Pool:
        """A pool that shares this one's limit, for memory that must stay where it is, such as a CUDA graph's. Memory
        that it has mapped stays mapped and serves only this child, even while free, until its own empty_cache, trim or
        close. It inherits this pool's device, mode, kind, slack, chunks and peers, and may outlive it. Since 0.2.
        Raises InvalidArgumentError (a child has no children), UnsupportedError (memory of an upstream), ForkedError."""
        handle = ffi.new("gpupool_t **")
        self._call(lib.gpupool_create_child, handle)
        child = Pool.__new__(Pool)
        child._take(handle[0], self._device, self._kind, self._configured_backend, is_default=False)
        return child

    # ---- memory

    def malloc_aligned(self, size: int | str, alignment: int, stream: StreamLike = 0) -> int:
        """Like malloc, aligned to a power of two of up to 2 MiB."""
        address, count = ffi.new("gpupool_ptr_t *"), size_of("size", size)
        with Using(stream) as number:
            try:
                self._call(lib.gpupool_malloc_aligned, count, integer("alignment", alignment), number, address)
            except BaseException:
                self.free(int(address[0]), number)  # Ctrl-C in the handler, and a block all the same
                raise
        return int(address[0])

    def alloc(self, size: int | str, stream: StreamLike = 0, *, alignment: int = 512) -> Buffer:
        """A block of size bytes for work on stream, which frees itself. Raises as malloc."""
        return self._own(Buffer.__new__(Buffer), size_of("size", size), stream, alignment)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = "float32", stream: StreamLike = 0) -> Array:
        """A block for an array, with undefined contents. Needs NumPy. Since 0.2. Raises as malloc, and TypeError for
        types that no GPU library has."""
        made = Array.__new__(Array)
        return self._own(made, made._describe(shape, dtype), stream)

    def array(self, data: npt.ArrayLike, stream: StreamLike = 0) -> Array:
        """A copy of a NumPy array, or of anything that numpy.asarray accepts, in a block. Returns when the copy is
        done. Raises as empty."""
        import numpy  # noqa: PLC0415  most programs do without

        given = numpy.asarray(data)
        made = self.empty(given.shape, given.dtype, stream)
        made.copy_from_host(numpy.ascontiguousarray(given))
        return made

    def _own(self, made: _Owned, size: int, stream: StreamLike, alignment: int = _ALIGNMENT) -> _Owned:
        """Gives the array a new block."""
        with Using(stream) as number:
            if alignment == _ALIGNMENT:
                address = self.malloc(size, number)
            else:
                address = self.malloc_aligned(size, alignment, number)
            try:
                made._take(self, self._open(), address, size, stream, number)
            except BaseException:
                self.free(address, STREAM_UNKNOWN)
                raise
        return made

    def record_stream(self, address: int, stream: StreamLike) -> None:
        """Tells the pool that stream uses the block too: once freed, the block is reused only when stream has passed
        the work queued on it by then. Raises UnknownPointerError, InvalidArgumentError (STREAM_UNKNOWN),
        ForkedError."""
        with Using(stream) as number:
            self._call(lib.gpupool_record_stream, address_of("address", address), number)

    # ---- streams and data

    def stream(self) -> Stream:
        """A new stream on the pool's device that does not synchronise with the legacy default stream. Streams of other
        libraries work too, without this. Raises DriverError, ForkedError."""
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
        streams. Its live blocks stay valid. Never waits for the GPU. Raises DriverError, ForkedError, and
        InvalidArgumentError for a stream that is capturing."""
        with Using(stream) as number:
            self._call(lib.gpupool_release_stream, number)

    def park_stream(self, stream: StreamLike) -> None:
        """Call it after each free on a stream of a library that does not say when it destroys streams: the pool does
        not touch the stream until a call names it again, such as a malloc. The stream keeps its memory. Never waits for
        the GPU. Raises DriverError, ForkedError, and InvalidArgumentError for a stream that is capturing."""
        with Using(stream) as number:
            self._call(lib.gpupool_park_stream, number)

    def capture_id(self, stream: StreamLike) -> int:
        """The number of the CUDA graph capture in progress on a stream; 0: none. Since 0.2. Raises DriverError,
        ForkedError."""
        capture = ffi.new("uint64_t *")
        with Using(stream) as number:
            self._call(lib.gpupool_capture_id, number, capture)
        return int(capture[0])

    def release_capture(self, capture: int) -> None:
        """Tells the pool that the graph from a capture will not run again, so the pool can reuse its memory. Call it
        when the graph and all its copies are destroyed and their launches are done. Never waits for the GPU. A capture
        that the pool has not seen is not an error. Since 0.2. Raises InvalidArgumentError (0, or still in progress),
        DriverError, ForkedError."""
        self._call(lib.gpupool_release_capture, integer("capture", capture))

    def announce_capture(self, begins: bool) -> None:
        """Tells the pool that a capture is about to begin on some stream (True), or that one has ended or failed
        (False). In between no free touches its stream, so that any thread may free, as finalizers do, while a capture
        begins; memory that is freed serves other streams only after waits. Calls count, and hold for the pool's parent
        and all children. Never waits for the GPU. Since 0.2. Raises InvalidArgumentError (False, and no capture is
        announced), ForkedError."""
        self._call(lib.gpupool_announce_capture, 1 if begins else 0)

    def enable_peer(self, peer: int) -> None:
        """Lets device number peer access all memory of this pool, now and later. Only the pool's end revokes it. Since
        0.2. Raises InvalidArgumentError (no such device), UnsupportedError (the devices cannot do it, or the memory
        comes from an upstream), DriverError, ForkedError."""
        self._call(lib.gpupool_enable_peer, device_number("peer", peer))

    def synchronize(self) -> None:
        """Waits until every stream that the pool has seen has passed the work queued on it so far, and makes the freed
        blocks that waited for them available. Raises DriverError, ForkedError."""
        self._call(lib.gpupool_synchronize)

    def copy(self, destination: int, source: int, size: int | str, stream: StreamLike = 0) -> None:
        """Queues a copy of size bytes between addresses on the device or the host. Host memory must stay valid until
        the stream has passed. Raises DriverError, InvalidArgumentError, UnsupportedError (a simulated device without
        data)."""
        addresses = address_of("destination", destination), address_of("source", source)
        with Using(stream) as number:
            self._call(lib.gpupool_copy, *addresses, size_of("size", size), number)

    def fill(self, address: int, value: int, size: int | str, stream: StreamLike = 0) -> None:
        """Queues a fill of size bytes with value, 0 to 255. Raises DriverError, InvalidArgumentError, and
        ValueError for another value."""
        with Using(stream) as number:
            self._call(
                lib.gpupool_fill, address_of("address", address), byte("value", value), size_of("size", size), number
            )

    # ---- keeping memory, and giving it back

    def empty_cache(self) -> int:
        """Gives every cached chunk back to the driver, so reserved memory falls to what live blocks touch; returns how
        many bytes that was. Waits for streams that may still use freed memory. Raises DriverError, ForkedError."""
        released = ffi.new("uint64_t *")
        self._call(lib.gpupool_empty, released)
        return int(released[0])

    def trim(self, target_bytes: int | str) -> int:
        """Gives cached chunks back, oldest first, until at most target_bytes are reserved or no more can be given back;
        returns how many bytes that was. Waits and raises as empty_cache."""
        released = ffi.new("uint64_t *")
        self._call(lib.gpupool_trim, size_of("target_bytes", target_bytes), released)
        return int(released[0])

    def reserve(self, target_bytes: int | str, stream: StreamLike = 0) -> None:
        """Creates memory until target_bytes are reserved, ready for stream. If it cannot get everything, it keeps what
        it got. Raises OverLimitError, OutOfMemoryError, DriverError, ForkedError."""
        with Using(stream) as number:
            self._call(lib.gpupool_reserve, size_of("target_bytes", target_bytes), number)

    def share_request(self, size: int | str, timeout: float = 0.0) -> None:
        """Asks the other processes of the pool's group to give back cached memory until there is room for this many
        more bytes, ahead of need; waits at most timeout seconds. Raises OverLimitError (not enough came back),
        UnavailableError (the pool is in no group), ForkedError. Since 0.2."""
        self._call(lib.gpupool_share_request, size_of("size", size), nanoseconds("timeout", timeout))

    def set_per_process_memory_fraction(self, fraction: float | str) -> None:
        """Limits reserved memory to a share of the device's, in (0, 1] or such as "40%", in place of what the pool was
        created with or a call set before. A smaller limit in the environment or of a group still holds. Cached memory
        above it is given back. Raises InvalidArgumentError, OverLimitError (live blocks hold more)."""
        self._call(lib.gpupool_set_fraction, share_of("fraction", fraction))

    def set_limit(self, limit: int | float | str) -> None:
        """The same with bytes, as an int or such as "2GiB", or a share of the device's, as a float or such as "40%"; 0
        takes the pool's own limit away. Raises as set_per_process_memory_fraction."""
        limit_bytes, part = size_or_share("limit", limit)
        if part:
            self.set_per_process_memory_fraction(part)
        else:
            self._call(lib.gpupool_set_limit, limit_bytes)

    def set_oom_handler(self, handler: OomHandler | None) -> None:
        """Sets a function that is called before a malloc of this pool fails: handler(size, attempt) frees something and
        returns True to retry. It runs on the malloc's thread and may use any pool. The malloc raises what the handler
        raises, Ctrl-C included. None: no handler. The old handler may still be running on another thread when this
        returns. Raises TypeError if handler cannot be called, or is asynchronous: nobody can await it there."""
        check_callable("handler", handler)
        self._handlers.oom = handler
        function = lib.gpupool_py_call_oom if handler is not None else ffi.NULL
        self._call(lib.gpupool_set_oom_handler, function, user_pointer(self._handlers.number))

    def set_sleep_hooks(self, before_release: SleepHook | None = None, after_map: SleepHook | None = None) -> None:
        """Sets what is called before this pool's memory goes, and when it is there again, on the thread of the sleep or
        the wake: hook(address) gets the block of sleep_block or wake_block, or 0 for the whole pool, and may use any
        pool. A before_release that returns false refuses: the sleep raises UnavailableError, and nothing changes. If
        after_map returns false, the wake raises UnavailableError, and the next wake calls it again. Returning None
        is agreement; an exception counts as false, and goes to sys.unraisablehook. Since 0.2. Raises TypeError if a
        hook cannot be called."""
        check_callable("before_release", before_release)
        check_callable("after_map", after_map)
        self._handlers.before_release = before_release
        self._handlers.after_map = after_map
        before = lib.gpupool_py_call_before if before_release is not None else ffi.NULL
        after = lib.gpupool_py_call_after if after_map is not None else ffi.NULL
        self._call(lib.gpupool_set_sleep_hooks, before, after, user_pointer(self._handlers.number))

    # ---- the device

    @property
    def device(self) -> int:
        """The device's number."""
        return self._device

    @property
    def kind(self) -> Kind:
        return self._kind

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
_before_default: list[Callable[[], object]] = []
"""What has to be done before a default pool is asked for: to find the limit that a launcher gave."""


def default_pool(device: int = 0) -> Pool:
    """The one pool of a device that everything in this process shares, in any language, created on first use with
    defaults; GPUPOOL_BACKEND and the limits in the environment apply. Raises as Pool."""
    for prepare in list(_before_default):
        prepare()
    handle = ffi.new("gpupool_t **")
    check(lib.gpupool_default_pool(device_number("device", device), handle))
    known = _default_pools.get(device)
    # A forked child has another one.
    if known is None or known._record.handle != handle[0]:
        known = Pool.__new__(Pool)
        known._take(handle[0], device, Kind.DEVICE, Backend.AUTO, is_default=True)
        _default_pools[device] = known
    return known
