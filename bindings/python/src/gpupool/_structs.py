# SPDX-License-Identifier: Apache-2.0
# Written by tools/apigen.py.
"""What the library reports about itself, as data."""

from __future__ import annotations

from typing import Any

from ._enums import Backend, BlockState, Capability, ShareMemberState, ShareState, SleepFlag, SleepMode
from ._native import ffi
from ._record import Record


class DeviceInfo(Record):
    """A device, as gpupool_device_info sees it."""

    __slots__ = (
        "backend",
        "capabilities",
        "compute_capability",
        "device",
        "driver_version",
        "free_bytes",
        "granularity_bytes",
        "name",
        "total_bytes",
    )

    backend: Backend
    """A gpupool_backend_t, never GPUPOOL_BACKEND_AUTO."""
    device: int
    capabilities: Capability
    """Bits of gpupool_capability_t."""
    total_bytes: int
    free_bytes: int
    """What the device itself says is free now, whoever holds the rest."""
    granularity_bytes: int
    """Sizes of chunks are multiples of this."""
    driver_version: int
    """As the driver gives it: 13000 is 13.0. 0 for the simulated device."""
    compute_capability: int
    """Compute capability: 90 is 9.0."""
    name: str

    @classmethod
    def _of(cls, c: Any) -> DeviceInfo:
        return cls(
            backend=Backend(c.backend),
            device=c.device,
            capabilities=Capability(c.capabilities),
            total_bytes=c.total_bytes,
            free_bytes=c.free_bytes,
            granularity_bytes=c.granularity_bytes,
            driver_version=c.driver_version,
            compute_capability=c.compute_capability,
            name=ffi.string(c.name).decode(errors="replace"),
        )


class Stat(Record):
    """One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever no
    call is in flight. While one thread allocates, peak is exact; with several, it is too high by at most 16
    MiB (or 4096 blocks) a thread. The peaks of reserved bytes and chunks are always exact.
    """

    __slots__ = (
        "current",
        "peak",
        "total_allocated",
        "total_freed",
    )

    current: int
    peak: int
    total_allocated: int
    total_freed: int

    @classmethod
    def _of(cls, c: Any) -> Stat:
        return cls(
            current=c.current,
            peak=c.peak,
            total_allocated=c.total_allocated,
            total_freed=c.total_freed,
        )


class StatGroup(Record):
    """The quantities of a group of blocks; see WORDS above. Bytes, and counts of blocks and chunks."""

    __slots__ = (
        "active_blocks",
        "active_bytes",
        "allocated_blocks",
        "allocated_bytes",
        "chunks",
        "requested_bytes",
        "reserved_bytes",
    )

    requested_bytes: Stat
    allocated_bytes: Stat
    active_bytes: Stat
    reserved_bytes: Stat
    allocated_blocks: Stat
    active_blocks: Stat
    chunks: Stat

    @classmethod
    def _of(cls, c: Any) -> StatGroup:
        return cls(
            requested_bytes=Stat._of(c.requested_bytes),
            allocated_bytes=Stat._of(c.allocated_bytes),
            active_bytes=Stat._of(c.active_bytes),
            reserved_bytes=Stat._of(c.reserved_bytes),
            allocated_blocks=Stat._of(c.allocated_blocks),
            active_blocks=Stat._of(c.active_blocks),
            chunks=Stat._of(c.chunks),
        )


class CallStat(Record):
    """How often a driver function was called, and how long the calls took (in virtual time on the simulated
    device). Failed calls count too.
    """

    __slots__ = (
        "count",
        "nanoseconds",
    )

    count: int
    nanoseconds: int

    @classmethod
    def _of(cls, c: Any) -> CallStat:
        return cls(
            count=c.count,
            nanoseconds=c.nanoseconds,
        )


class DriverStats(Record):
    """The pool's own calls of the driver by kind. gpupool_copy, gpupool_fill and gpupool_stream_synchronize are
    the caller's work, and not counted.
    """

    __slots__ = (
        "address",
        "create",
        "event_record",
        "free",
        "host_wait",
        "malloc",
        "map",
        "query",
        "release",
        "set_access",
        "stream_wait",
        "unmap",
    )

    create: CallStat
    release: CallStat
    map: CallStat
    set_access: CallStat
    unmap: CallStat
    address: CallStat
    """Reserving and releasing addresses."""
    malloc: CallStat
    """The driver's own malloc and free, or the upstream's."""
    free: CallStat
    event_record: CallStat
    query: CallStat
    """Queries of events, streams and capture."""
    stream_wait: CallStat
    """One stream made to wait for another, on the GPU."""
    host_wait: CallStat
    """The host waiting for the GPU."""

    @classmethod
    def _of(cls, c: Any) -> DriverStats:
        return cls(
            create=CallStat._of(c.create),
            release=CallStat._of(c.release),
            map=CallStat._of(c.map),
            set_access=CallStat._of(c.set_access),
            unmap=CallStat._of(c.unmap),
            address=CallStat._of(c.address),
            malloc=CallStat._of(c.malloc),
            free=CallStat._of(c.free),
            event_record=CallStat._of(c.event_record),
            query=CallStat._of(c.query),
            stream_wait=CallStat._of(c.stream_wait),
            host_wait=CallStat._of(c.host_wait),
        )


class Stats(Record):
    """Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks of a
    group count the chunks that back its heaps now; all also counts a chunk that backs neither just now.
    """

    __slots__ = (
        "all",
        "asleep_bytes",
        "backup_bytes",
        "cached_bytes",
        "copy",
        "device",
        "driver",
        "failed_mallocs",
        "hits",
        "large",
        "limit_bytes",
        "metadata_bytes",
        "misses",
        "oom_handler_calls",
        "own_limit_bytes",
        "releasable_bytes",
        "retries",
        "share_given_bytes",
        "share_slot",
        "share_state",
        "share_taken_bytes",
        "slack_bytes",
        "sleeps",
        "small",
        "steals",
        "stream",
        "stream_steals",
        "streams",
        "wakes",
    )

    device: int
    limit_bytes: int
    """The limit in force, in bytes, whether set in bytes, as a fraction or in the environment; 0: none. A
    group's limit comes on top.
    """
    cached_bytes: int
    releasable_bytes: int
    """The part of cached_bytes that gpupool_empty would give back: chunks that no block touches. What can still
    be had, even in one block, is limit_bytes - all.reserved_bytes.current + releasable_bytes in mode vmm, if
    the device has what is not reserved yet. The rest of cached_bytes lies between live blocks.
    """
    slack_bytes: int
    all: StatGroup
    large: StatGroup
    small: StatGroup
    driver: DriverStats
    hits: int
    """Mallocs that a thread's own cache served, and the others."""
    misses: int
    steals: int
    """Free chunks that the pool mapped at another address or handed to another stream, and the part of them
    that came from another stream.
    """
    stream_steals: int
    retries: int
    """Mallocs that met a shortage, calls of the out-of-memory handler, and mallocs that failed."""
    oom_handler_calls: int
    failed_mallocs: int
    streams: int
    """Streams that this pool has seen and nobody has released."""
    metadata_bytes: int
    """Host memory of the pool's own records."""
    asleep_bytes: int
    """Memory that waking will create, because the pool is asleep, or blocks are; a block that sleeps alone
    leaves it with its free. It is not part of reserved_bytes; blocks in it still count as active. This and
    all below: since 0.2.
    """
    backup_bytes: int
    """Page-locked host memory that the pool holds to sleep with. What it saved of a block that was freed
    asleep goes with the next wake: to free such memory waits for the device.
    """
    sleeps: int
    """How often the pool fell asleep, and woke."""
    wakes: int
    copy: CallStat
    """More calls of the driver: what sleep, wake and debug modes copy and fill, and streams created and
    destroyed for that.
    """
    stream: CallStat
    share_given_bytes: int
    """What this process has given back because others in its group were short, and what it got after asking
    them.
    """
    share_taken_bytes: int
    share_state: ShareState
    """A gpupool_share_state_t."""
    share_slot: int
    """The number of the process in its group."""
    own_limit_bytes: int
    """What gpupool_create, gpupool_set_limit or gpupool_set_fraction asked for last, in bytes; 0: nothing."""

    @classmethod
    def _of(cls, c: Any) -> Stats:
        return cls(
            device=c.device,
            limit_bytes=c.limit_bytes,
            cached_bytes=c.cached_bytes,
            releasable_bytes=c.releasable_bytes,
            slack_bytes=c.slack_bytes,
            all=StatGroup._of(c.all),
            large=StatGroup._of(c.large),
            small=StatGroup._of(c.small),
            driver=DriverStats._of(c.driver),
            hits=c.hits,
            misses=c.misses,
            steals=c.steals,
            stream_steals=c.stream_steals,
            retries=c.retries,
            oom_handler_calls=c.oom_handler_calls,
            failed_mallocs=c.failed_mallocs,
            streams=c.streams,
            metadata_bytes=c.metadata_bytes,
            asleep_bytes=c.asleep_bytes,
            backup_bytes=c.backup_bytes,
            sleeps=c.sleeps,
            wakes=c.wakes,
            copy=CallStat._of(c.copy),
            stream=CallStat._of(c.stream),
            share_given_bytes=c.share_given_bytes,
            share_taken_bytes=c.share_taken_bytes,
            share_state=ShareState(c.share_state),
            share_slot=c.share_slot,
            own_limit_bytes=c.own_limit_bytes,
        )


class Share(Record):
    """A group of processes that share a device's memory, as gpupool_share_info finds it. Since 0.2."""

    __slots__ = (
        "foreign_bytes",
        "limbo_bytes",
        "limit_bytes",
        "members",
        "path",
        "total_bytes",
        "used_bytes",
    )

    members: int
    """Members that live, and dead ones whose memory is not confirmed free yet."""
    limit_bytes: int
    """What all members may have together, what they have (guarantees included), and what the device has."""
    used_bytes: int
    total_bytes: int
    limbo_bytes: int
    """The part of used_bytes that dead members held, until the device shows it free."""
    foreign_bytes: int
    """Memory that no member held at the last quiet moment: contexts, and programs outside the group."""
    path: str
    """Where the region is."""

    @classmethod
    def _of(cls, c: Any) -> Share:
        return cls(
            members=c.members,
            limit_bytes=c.limit_bytes,
            used_bytes=c.used_bytes,
            total_bytes=c.total_bytes,
            limbo_bytes=c.limbo_bytes,
            foreign_bytes=c.foreign_bytes,
            path=ffi.string(c.path).decode(errors="replace"),
        )


class ShareMember(Record):
    """A member of a group. All but charged_bytes is what the member says of itself, and may lag. Since 0.2."""

    __slots__ = (
        "charged_bytes",
        "given_bytes",
        "guaranteed_bytes",
        "is_waiting",
        "limit_bytes",
        "live_bytes",
        "name",
        "pid",
        "priority",
        "reserved_bytes",
        "slot",
        "state",
        "taken_bytes",
        "uid",
        "want_bytes",
    )

    slot: int
    """Its number, for gpupool_share_set."""
    state: ShareMemberState
    """A gpupool_share_member_state_t."""
    pid: int
    """As its own namespace sees it."""
    uid: int
    priority: int
    is_waiting: int
    """1: it waits for want_bytes."""
    want_bytes: int
    reserved_bytes: int
    """What it has, and what counts for the group: the larger of that and its guarantee."""
    charged_bytes: int
    live_bytes: int
    """Bytes in live blocks when it was asked last."""
    guaranteed_bytes: int
    limit_bytes: int
    """0: none but the group's."""
    given_bytes: int
    taken_bytes: int
    name: str
    """The program."""

    @classmethod
    def _of(cls, c: Any) -> ShareMember:
        return cls(
            slot=c.slot,
            state=ShareMemberState(c.state),
            pid=c.pid,
            uid=c.uid,
            priority=c.priority,
            is_waiting=c.is_waiting,
            want_bytes=c.want_bytes,
            reserved_bytes=c.reserved_bytes,
            charged_bytes=c.charged_bytes,
            live_bytes=c.live_bytes,
            guaranteed_bytes=c.guaranteed_bytes,
            limit_bytes=c.limit_bytes,
            given_bytes=c.given_bytes,
            taken_bytes=c.taken_bytes,
            name=ffi.string(c.name).decode(errors="replace"),
        )


class SleepOptions(Record):
    """How to sleep, or to wake. All zero (after struct_size) is a good choice, and so is NULL. Since 0.2."""

    __slots__ = (
        "fill",
        "flags",
        "mode",
        "target_bytes",
        "timeout_ns",
    )

    mode: SleepMode
    """A gpupool_sleep_mode_t. For sleep only."""
    flags: SleepFlag
    """Bits of gpupool_sleep_flag_t; unknown bits are refused."""
    fill: int
    """With GPUPOOL_SLEEP_FLAG_FILL: a byte, 0 to 255."""
    timeout_ns: int
    """Wake: how long to wait for memory that others hold, in nanoseconds. 0: not at all."""
    target_bytes: int
    """gpupool_sleep and gpupool_sleep_tag: how many bytes to give back, while the pool stays awake. 0: all, and
    it sleeps. Elsewhere it must be 0.
    """

    @classmethod
    def _of(cls, c: Any) -> SleepOptions:
        return cls(
            mode=SleepMode(c.mode),
            flags=SleepFlag(c.flags),
            fill=c.fill,
            timeout_ns=c.timeout_ns,
            target_bytes=c.target_bytes,
        )


class SleepResult(Record):
    """The result of a sleep or a wake, in bytes, over all pools that it was for. All zero if there was nothing to
    do. Since 0.2.
    """

    __slots__ = (
        "created_bytes",
        "dropped_bytes",
        "nanoseconds",
        "pools",
        "released_bytes",
        "retained_bytes",
        "saved_bytes",
    )

    pools: int
    """Pools that were put to sleep, or woken."""
    released_bytes: int
    """Sleep: physical memory that was given back, cached memory included."""
    saved_bytes: int
    """Sleep: contents of live blocks that were copied to the host. Wake: contents that were copied back."""
    dropped_bytes: int
    """Sleep and wake: contents of live blocks that were not copied."""
    retained_bytes: int
    """Sleep: the part of released_bytes that the device did not get back, because somebody else holds the
    memory or the driver did not take it. An estimate if others allocate at the same time.
    """
    created_bytes: int
    """Wake: physical memory that was created."""
    nanoseconds: int
    """How long it took, waiting included, by the device's clock."""

    @classmethod
    def _of(cls, c: Any) -> SleepResult:
        return cls(
            pools=c.pools,
            released_bytes=c.released_bytes,
            saved_bytes=c.saved_bytes,
            dropped_bytes=c.dropped_bytes,
            retained_bytes=c.retained_bytes,
            created_bytes=c.created_bytes,
            nanoseconds=c.nanoseconds,
        )


class Block(Record):
    """A block as gpupool_block_info and gpupool_snapshot give it."""

    __slots__ = (
        "address",
        "allocated_bytes",
        "device",
        "requested_bytes",
        "state",
        "stream",
    )

    address: int
    requested_bytes: int
    allocated_bytes: int
    stream: int
    """From gpupool_block_info, since 0.2: GPUPOOL_STREAM_UNKNOWN once the stream was released."""
    state: BlockState
    """A gpupool_block_state_t."""
    device: int

    @classmethod
    def _of(cls, c: Any) -> Block:
        return cls(
            address=c.address,
            requested_bytes=c.requested_bytes,
            allocated_bytes=c.allocated_bytes,
            stream=c.stream,
            state=BlockState(c.state),
            device=c.device,
        )


class Holder(Record):
    """Who holds live bytes of a pool: one call site under one tag. See gpupool_holders. Since 0.2."""

    __slots__ = (
        "live_bytes",
        "newest_nanoseconds",
        "oldest_nanoseconds",
        "samples",
        "stack",
        "tag",
    )

    live_bytes: int
    """Estimated from the samples."""
    samples: int
    """Live blocks of this holder that are samples."""
    oldest_nanoseconds: int
    """How long the oldest and the newest of them have been live."""
    newest_nanoseconds: int
    tag: str
    """With a terminating zero; "": none."""
    stack: str
    """A line for each frame, the innermost first, with a terminating zero; "": unknown."""

    @classmethod
    def _of(cls, c: Any) -> Holder:
        return cls(
            live_bytes=c.live_bytes,
            samples=c.samples,
            oldest_nanoseconds=c.oldest_nanoseconds,
            newest_nanoseconds=c.newest_nanoseconds,
            tag=ffi.string(c.tag).decode(errors="replace"),
            stack=ffi.string(c.stack).decode(errors="replace"),
        )


class Segment(Record):
    """Mapped memory as gpupool_snapshot gives it: a chunk at its address."""

    __slots__ = (
        "address",
        "blocks",
        "is_small",
        "size_bytes",
        "stream",
    )

    address: int
    size_bytes: int
    stream: int
    """The stream whose heap it backs."""
    blocks: int
    """Blocks that touch it. 0: gpupool_empty would give it back."""
    is_small: int
    """1: in a heap of small blocks."""

    @classmethod
    def _of(cls, c: Any) -> Segment:
        return cls(
            address=c.address,
            size_bytes=c.size_bytes,
            stream=c.stream,
            blocks=c.blocks,
            is_small=c.is_small,
        )
