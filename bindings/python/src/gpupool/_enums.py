# SPDX-License-Identifier: Apache-2.0
# Written by tools/apigen.py.
"""Numbers of the C interface."""

from enum import IntEnum, IntFlag

VERSION_MAJOR = 0
VERSION_MINOR = 2
VERSION_PATCH = 0
VERSION = 200
"""MAJOR * 10000 + MINOR * 100 + PATCH; compare with gpupool_version()."""
STREAM_UNKNOWN = 0xFFFFFFFFFFFFFFFF
"""For gpupool_free: "any stream that this pool has seen may still be using the block"."""
EXPORT_BYTES = 192
"""Room for a handle of gpupool_export, its terminating zero included. Since 0.2."""


class Status(IntEnum):
    """The result of a call. The numbers never change."""

    SUCCESS = 0
    INVALID_ARGUMENT = 1
    """An argument is out of range, or a handle is NULL, destroyed or from another copy of the library."""
    OUT_OF_MEMORY = 2
    """The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped.
    So too if the process has no addresses left, which the message says.
    """
    HOST_OUT_OF_MEMORY = 3
    """The library could not get memory on the host for its own records, or to save what sleeps."""
    OVER_LIMIT = 4
    """The call would take reserved memory above the pool's limit."""
    UNKNOWN_POINTER = 5
    """The pointer is not a live block of this pool: foreign, freed already, or inside a block."""
    UNAVAILABLE = 6
    """The backend cannot be used here: no driver, no GPU, or no such device."""
    UNSUPPORTED = 7
    """This device or this mode cannot do it, or a struct has fields that this version does not know."""
    DRIVER = 8
    """The driver refused a call; gpupool_error_t.driver_code has its number."""
    SHUTTING_DOWN = 9
    """The process is exiting and the driver has gone."""
    FORKED = 10
    """The pool was created before fork, in the parent process."""
    INTERNAL = 11
    """The library broke a promise of its own. Please report it."""
    ASLEEP = 12
    """The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2."""
    INTERRUPTED = 13
    """The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2."""


class Backend(IntEnum):
    """Where memory comes from."""

    AUTO = 0
    """CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim|host in the
    environment overrides this.
    """
    CUDA = 1
    SIM = 2
    HOST = 3
    """Memory of the host, without a GPU and without a simulation. Since 0.2."""


class Mode(IntEnum):
    """How memory is obtained from the backend."""

    AUTO = 0
    """vmm where the device, its driver and the kind allow it, else driver. For kind device,
    GPUPOOL_MODE=vmm|driver in the environment overrides this (since 0.2).
    """
    VMM = 1
    """Chunks, mapped where they are needed: the tightest mode. Kind device only."""
    DRIVER = 2
    """Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem."""
    UPSTREAM = 3
    """Segments from the callbacks in gpupool_config_t."""


class Kind(IntEnum):
    """What kind of memory."""

    DEVICE = 0
    PINNED = 1
    """Page-locked host memory that the device can read and write; the driver chooses node and pages."""
    MANAGED = 2
    """Memory that the driver moves between host and device."""


class Flag(IntFlag):
    """Bits of gpupool_config_t.flags."""

    CAPTURE_AWARE = 1
    """At every malloc and free, the pool asks the driver whether the stream is capturing a graph, and reuses
    what a capture allocates and frees within that capture only. Costs one driver query a call.
    """


class RecordFlag(IntFlag):
    """Bits of the flags of gpupool_record_start. Since 0.2."""

    NATIVE_STACKS = 1
    """Records the native stack of each malloc. docs/watch.md says what a stack costs."""
    LANGUAGE_STACKS = 2
    """Records what the function of gpupool_set_stack_fn says at each malloc."""


class Feature(IntFlag):
    """Bits of gpupool_features(): what this build can do."""

    SIM = 1
    """The simulated device. Always there."""
    CUDA = 2
    """A CUDA driver with at least one device can be used in this process."""
    HOST = 4
    """The host's memory can be used as a device's. Since 0.2."""


class Capability(IntFlag):
    """Bits of gpupool_device_info_t.capabilities."""

    VMM = 1
    RDMA = 2
    MANAGED = 4
    INTEGRATED = 8
    """The device has no memory of its own, but takes the host's (Jetson, GB10). total_bytes and free_bytes are
    then what this process may have of it and what it can still get, in its container; a pool sleeps with
    GPUPOOL_SLEEP_MODE_DROP only, since saved contents would stay in the same memory. Since 0.2.
    """


class BlockState(IntEnum):
    """State of a block in gpupool_block_t."""

    LIVE = 1
    """Handed out."""
    PENDING = 2
    """Freed, but a stream may still be using it."""
    CACHED = 3
    """Free to hand out."""
    ASLEEP = 4
    """Handed out, but some or all of its memory is away: the pool is asleep, or the block. Since 0.2."""


class SleepMode(IntEnum):
    """What happens to the contents of blocks when a pool sleeps. Since 0.2."""

    SAVE = 0
    """They are copied to page-locked host memory, and back."""
    DROP = 1
    """They are lost, except in the blocks that gpupool_set_keep names."""


class SleepFlag(IntFlag):
    """Bits of gpupool_sleep_options_t.flags. Since 0.2."""

    SYNC_CONTEXT = 1
    """Changes nothing: every sleep waits for all work of the device's context, and of the contexts of the
    streams that the pool has seen.
    """
    HOLD_MALLOCS = 2
    """Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP."""
    RETAIN_BACKUP = 4
    """Wake: keeps the page-locked memory for the next sleep, as gpupool_prepare_backup does."""
    FILL = 8
    """Wake: fills blocks that were dropped with the byte in `fill`."""


class Access(IntEnum):
    """What work of the device and its peers may do with a block: see gpupool_protect. Since 0.2."""

    WRITE = 0
    READ = 1
    NONE = 2


class ShareState(IntEnum):
    """Whether a pool shares the device with other processes. Since 0.2."""

    OFF = 0
    ALONE = 1
    """It should share and cannot, so it works as if it had the device to itself. It wrote the reason to
    standard error.
    """
    SHARED = 2


class ShareMemberState(IntEnum):
    """The state of a member of a group. Since 0.2."""

    LIVE = 1
    LIMBO = 2
    """It has ended, but the device does not show its memory as free yet."""


class ShareFigure(IntEnum):
    """What gpupool_share_set sets. Since 0.2."""

    LIMIT = 1
    """What all members may have together, in bytes."""
    MEMBER_LIMIT = 2
    """What one member may have, in bytes; 0: no limit but the group's."""
    MEMBER_GUARANTEE = 3
    """What one member is guaranteed, in bytes."""
    MEMBER_PRIORITY = 4
    """From -8 to 8."""


class SleepState(IntEnum):
    """Whether a pool is awake. Since 0.2."""

    AWAKE = 0
    FALLING_ASLEEP = 1
    ASLEEP = 2
    WAKING = 3


class Wait(IntEnum):
    """What a call waits for when it asks a gpupool_interrupt_fn_t. Since 0.2."""

    WAKE = 1
    """A malloc that a sleeping pool holds: for another thread to wake the pool. It has no other end."""
    TURN = 2
    """For another thread's sleep or wake of the same pool to end."""
    MEMORY = 3
    """For memory that others may give back: a wake with a timeout, or a request to the members of a group."""
    GPU = 4
    """For work that is queued on the device."""


class LogLevel(IntEnum):
    """Levels of the log."""

    OFF = 0
    ERROR = 1
    """Failures of the driver, of the host's memory and of the library itself."""
    WARNING = 2
    """Mallocs that fail."""
    INFO = 3
    """Pools that begin and end, and calls that are refused."""
    DEBUG = 4
    """Since 0.2: what a pool does behind a malloc: growth, memory given back and why, memory taken from another
    stream, waits of the host, the steps of a shortage, streams released or parked, captures released, peers
    enabled.
    """
