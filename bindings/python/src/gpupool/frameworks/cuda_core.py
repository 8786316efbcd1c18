# SPDX-License-Identifier: Apache-2.0
"""gpupool in cuda.core.

    gpupool.install("cuda.core")                          # every device's memory_resource, in this thread; or
    device.memory_resource = gpupool.cuda_core.MemoryResource(device.device_id)

cuda.core keeps one Device per thread.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._enums import STREAM_UNKNOWN
from .._library import device_count
from .._stream import StreamLike
from . import Undo
from ._pools import free_last, pool_of

try:
    _core: Any = importlib.import_module("cuda.core")
    _core.MemoryResource  # noqa: B018  versions before 0.5 have it elsewhere
except (ImportError, AttributeError):
    _core = importlib.import_module("cuda.core.experimental")


if TYPE_CHECKING:
    _Base = object
else:
    _Base = getattr(_core, "MemoryResource", object)


class MemoryResource(_Base):
    """Memory from a device's default pool."""

    def __init__(self, device_id: int) -> None:
        self._device_id = int(device_id)

    def allocate(self, size: int, stream: StreamLike = 0, **_: Any) -> Any:
        """A cuda.core.Buffer for work on stream. Raises as Pool.malloc."""
        pointer = pool_of(self._device_id).malloc(size, stream or 0)
        try:
            return _core.Buffer.from_handle(pointer, size, mr=self, stream=stream or None)
        except TypeError:  # Before 1.0, a Buffer has no stream of its own.
            return _core.Buffer.from_handle(pointer, size, mr=self)

    def deallocate(self, ptr: Any, size: int, stream: StreamLike | None = None, **_: Any) -> None:
        """Frees it in stream order; without a stream, in the order of all streams that the pool has seen. The stream
        may be closed afterwards."""
        if stream is None:
            pool_of(self._device_id).free(int(ptr), STREAM_UNKNOWN)
        else:
            free_last(self._device_id, int(ptr), stream)

    @property
    def is_device_accessible(self) -> bool:
        return True

    @property
    def is_host_accessible(self) -> bool:
        return False

    @property
    def is_managed(self) -> bool:
        return False

    @property
    def device_id(self) -> int:
        return self._device_id


def check() -> None:
    """Raises RuntimeError if this version of cuda.core has no memory resources. Others accept one at any time."""
    if not hasattr(_core, "MemoryResource"):
        version = importlib.import_module("cuda.core").__version__
        raise RuntimeError(f"gpupool needs cuda.core 0.3, which has memory resources; this is {version}")


def put() -> Undo:
    """Sets the memory resource of every device for this thread; returns a function that undoes it."""
    devices = [_core.Device(index) for index in range(device_count())]
    for device in devices:
        device.memory_resource = MemoryResource(device.device_id)

    def undo() -> None:
        for device in devices:
            device.memory_resource = _core.DeviceMemoryResource(device.device_id)

    return undo
