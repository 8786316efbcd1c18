# SPDX-License-Identifier: Apache-2.0
"""One pool of GPU memory for a whole program.

    import gpupool

    with gpupool.Pool(fraction=0.9) as pool:
        with pool.alloc(1 << 20) as buffer:
            tensor = torch.from_dlpack(buffer)

A Pool keeps the memory that the driver gave it and hands out blocks: as a Buffer, which frees itself and which other
libraries accept without a copy, or as an address. Without a GPU, the same works on an exact simulated device;
gpupool.sim controls it. Errors are subclasses of gpupool.Error.

Terms, and the rules for threads and streams, are those of the C header, gpupool.h.
"""

import os as _os
from typing import TYPE_CHECKING, Any

from . import sim
from ._arguments import parse_device, parse_size
from ._array import Array, ArrayView
from ._buffer import Buffer, BufferSlice
from ._callbacks import set_log
from ._debug import set_debug, why
from ._default import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    snapshot,
    synchronize,
)
from ._enums import (
    STREAM_UNKNOWN,
    VERSION,
    Access,
    Backend,
    BlockState,
    Capability,
    Feature,
    Kind,
    LogLevel,
    Mode,
    RecordFlag,
    ShareFigure,
    ShareMemberState,
    ShareState,
    SleepMode,
    SleepState,
    Status,
)
from ._error import Error
from ._exports import ImportedBlock
from ._library import device_count, device_info, features, version, version_number
from ._pool import Pool, default_pool
from ._recording import mark, record_start, record_stop, set_sampling
from ._retry import collect_garbage, empty_caches, retry_on_oom
from ._share import ShareGroup, share_info, share_repair, share_set
from ._sleep import sleep_tag, wake_tag
from ._statistics import Snapshot
from ._status_errors import (
    AsleepError,
    DriverError,
    ForkedError,
    HostOutOfMemoryError,
    InternalError,
    InterruptedError,
    InvalidArgumentError,
    OutOfMemoryError,
    OverLimitError,
    ShuttingDownError,
    UnavailableError,
    UnknownPointerError,
    UnsupportedError,
)
from ._stream import Stream, StreamLike
from ._structs import (
    Block,
    CallStat,
    DeviceInfo,
    DriverStats,
    Holder,
    Segment,
    Share,
    ShareMember,
    SleepResult,
    Stat,
    StatGroup,
    Stats,
)
from ._tags import tag
from ._transfer import Transfer

if TYPE_CHECKING:
    from ._cuda_array import BorrowedArray, from_cuda_array
    from ._dlpack import BorrowedTensor, from_dlpack
    from .frameworks import install

__version__ = version()

__all__ = [
    "STREAM_UNKNOWN",
    "VERSION",
    "Access",
    "Array",
    "ArrayView",
    "AsleepError",
    "Backend",
    "Block",
    "BlockState",
    "BorrowedArray",
    "BorrowedTensor",
    "Buffer",
    "BufferSlice",
    "CallStat",
    "Capability",
    "DeviceInfo",
    "DriverError",
    "DriverStats",
    "Error",
    "Feature",
    "ForkedError",
    "Holder",
    "HostOutOfMemoryError",
    "ImportedBlock",
    "InternalError",
    "InterruptedError",
    "InvalidArgumentError",
    "Kind",
    "LogLevel",
    "Mode",
    "OutOfMemoryError",
    "OverLimitError",
    "Pool",
    "RecordFlag",
    "Segment",
    "Share",
    "ShareFigure",
    "ShareGroup",
    "ShareMember",
    "ShareMemberState",
    "ShareState",
    "ShuttingDownError",
    "SleepMode",
    "SleepResult",
    "SleepState",
    "Snapshot",
    "Stat",
    "StatGroup",
    "Stats",
    "Status",
    "Stream",
    "StreamLike",
    "Transfer",
    "UnavailableError",
    "UnknownPointerError",
    "UnsupportedError",
    "collect_garbage",
    "default_pool",
    "device_count",
    "device_info",
    "empty_cache",
    "empty_caches",
    "features",
    "from_cuda_array",
    "from_dlpack",
    "install",
    "mark",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "parse_device",
    "parse_size",
    "record_start",
    "record_stop",
    "reset_peak_memory_stats",
    "retry_on_oom",
    "set_debug",
    "set_log",
    "set_per_process_memory_fraction",
    "set_sampling",
    "share_info",
    "share_repair",
    "share_set",
    "sim",
    "sleep_tag",
    "snapshot",
    "synchronize",
    "tag",
    "version",
    "version_number",
    "wake_tag",
    "why",
]


# The name that a traceback and help() show, and where pickle looks.
for _public in __all__:
    if isinstance(_class := globals().get(_public), type):
        _class.__module__ = __name__
del _public, _class


# Most programs do not need these: DLPack needs ctypes, and a framework's module imports the framework.
_LATER = {
    "BorrowedArray": "_cuda_array",
    "BorrowedTensor": "_dlpack",
    "from_cuda_array": "_cuda_array",
    "from_dlpack": "_dlpack",
    "install": "frameworks",
}
_FRAMEWORK_MODULES = (
    "cuda_core",
    "cupy",
    "cuquantum",
    "dask",
    "ipython",
    "jax",
    "launch",
    "numba",
    "onnxruntime",
    "pytest",
    "ray",
    "rmm",
    "torch",
    "triton",
    "vllm",
    "warp",
)


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    if name in _FRAMEWORK_MODULES:
        try:
            return import_module(f".{name}", __name__)
        except Exception as error:
            # help(), inspect and mock ask for every name, and expect this of one that is not there.
            raise AttributeError(f"gpupool.{name} cannot be imported: {error}", name=name) from error
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_FRAMEWORK_MODULES, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: Any) -> None:
    """Adds %%gpupool, which shows the report of a cell: `%load_ext gpupool`. Since 0.2."""
    from .ipython import GpupoolMagics  # noqa: PLC0415

    shell.register_magics(GpupoolMagics)


if _os.environ.get("GPUPOOL_INSTALL") or _os.environ.get("GPUPOOL_CAP"):
    from .frameworks._environment import activate_at_start as _activate_at_start

    _activate_at_start()
