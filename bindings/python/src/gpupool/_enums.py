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


class Status(IntEnum):
    """What a call came to. The numbers never change."""

    SUCCESS = 0
    INVALID_ARGUMENT = 1
    """An argument is out of range, or a handle is NULL, destroyed or from another copy of the library."""
    OUT_OF_MEMORY = 2
    """The device has no more memory, and nothing that the pool could do has helped."""
    HOST_OUT_OF_MEMORY = 3
    """The library could not get memory on the host for its own records."""
    OVER_LIMIT = 4
    """The call would bring reserved memory above the pool's limit."""
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
    """A promise of the library itself was broken. Please report it."""
    ASLEEP = 12
    """The pool sleeps, or is about to: see gpupool_sleep. Since 0.2."""


class Backend(IntEnum):
    """Where memory comes from."""

    AUTO = 0
    """CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the
    environment decides instead.
    """
    CUDA = 1
    SIM = 2


class Mode(IntEnum):
    """How memory is obtained from the backend."""

    AUTO = 0
    """vmm where the device and the kind allow it, else driver."""
    VMM = 1
    """Chunks that are mapped where they are needed: tightest. Kind device only."""
    DRIVER = 2
    """Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem."""
    UPSTREAM = 3
    """Segments from the callbacks in gpupool_config_t."""


class Kind(IntEnum):
    """What kind of memory."""

    DEVICE = 0
    PINNED = 1
    """Page-locked memory of the host that the device can read and write."""
    MANAGED = 2
    """Memory that the driver moves between host and device."""


class Flag(IntFlag):
    """Bits of gpupool_config_t.flags."""

    CAPTURE_AWARE = 1
    """Ask the driver at every malloc and free whether the stream is capturing a graph; what is allocated
    and freed while capturing is reused within that capture only. Costs a driver query a call.
    """


class RecordFlag(IntFlag):
    """Bits of the flags of gpupool_record_start. Since 0.2."""

    NATIVE_STACKS = 1
    """With the stack of native code at each malloc. 0.3 to 40 us each, by depth and by what the system has."""
    LANGUAGE_STACKS = 2
    """With what the function of gpupool_set_stack_fn says at each malloc."""


class Feature(IntFlag):
    """Bits of gpupool_features(): what this build can do."""

    SIM = 1
    """The simulated device. Always there."""
    CUDA = 2
    """A CUDA driver with at least one device can be used in this process."""


class Capability(IntFlag):
    """Bits of gpupool_device_info_t.capabilities."""

    VMM = 1
    RDMA = 2
    MANAGED = 4


class BlockState(IntEnum):
    """State of a block in gpupool_block_t."""

    LIVE = 1
    """Handed out."""
    PENDING = 2
    """Freed, but a stream may still be using it."""
    CACHED = 3
    """Free to hand out."""
    ASLEEP = 4
    """Handed out, and its memory is away: the pool sleeps. Since 0.2."""


class SleepMode(IntEnum):
    """What becomes of the contents of blocks when a pool sleeps. Since 0.2."""

    SAVE = 0
    """They are copied to page-locked memory of the host, and back."""
    DROP = 1
    """They are lost, but for the blocks that gpupool_set_keep names."""


class SleepFlag(IntFlag):
    """Bits of gpupool_sleep_options_t.flags. Since 0.2."""

    SYNC_CONTEXT = 1
    """Sleep: waits for all work of the device's context, not only for streams that the pool has seen."""
    HOLD_MALLOCS = 2
    """Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP."""
    RETAIN_BACKUP = 4
    """Wake: the page-locked memory stays for the next sleep, as if gpupool_prepare_backup had got it."""
    FILL = 8
    """Wake: blocks that were dropped are filled with the byte in `fill`."""


class SleepState(IntEnum):
    """Where a pool stands. Since 0.2."""

    AWAKE = 0
    FALLING_ASLEEP = 1
    ASLEEP = 2
    WAKING = 3


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
    """Since 0.2: what a pool does behind a malloc. Growth, memory given back and why, memory taken from another
    stream, waits on the host, the steps of a shortage, streams released or parked, captures released, peers
    enabled.
    """
