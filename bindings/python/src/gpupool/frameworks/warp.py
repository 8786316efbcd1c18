# SPDX-License-Identifier: Apache-2.0
"""gpupool in NVIDIA Warp, version 1.15 or later.

gpupool.install("warp")
with wp.ScopedAllocator(device, gpupool.warp.Allocator(device)): ...      # or for a while
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

from .._error import Error
from . import Undo
from ._pools import free_last, pool_of, release_streams_before_they_end

_warp: Any = importlib.import_module("warp")


def _identify(stream: Any) -> tuple[int, int]:
    # Other libraries' streams live on when Warp's object ends.
    return stream.device.ordinal, stream.cuda_stream if stream.owner else 0


class Allocator:
    """Memory from a device's default pool, for work on Warp's current stream of that device."""

    def __init__(self, device: Any) -> None:
        self._device = _warp.get_device(device)
        release_streams_before_they_end(_warp.Stream, _identify)

    def _stream(self) -> int:
        return self._device.stream.cuda_stream or 0

    def allocate(self, size_in_bytes: int) -> int:
        """Raises as Pool.malloc."""
        return pool_of(self._device.ordinal).malloc(size_in_bytes, self._stream())

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Frees on the current stream, which lives, whatever has become of the one that the memory was allocated for;
        if that is another, the memory waits for both. Another library's stream may end without notice."""
        stream = self._device.stream
        with suppress(Error):  # at exit, when the driver has gone
            if stream.owner:
                pool_of(self._device.ordinal).free(ptr, self._stream())
            else:
                free_last(self._device.ordinal, ptr, self._stream())


def check() -> None:
    """Raises RuntimeError if this version of Warp accepts no allocator, or already has another library's."""
    if not hasattr(_warp, "set_device_allocator"):
        raise RuntimeError(f"gpupool needs Warp 1.15, which accepts allocators; this is {_warp.__version__}")
    for device in _warp.get_cuda_devices():
        current = _warp.get_device_allocator(device)
        if not isinstance(current, Allocator) and not type(current).__module__.startswith("warp._src.context"):
            raise RuntimeError(
                f"Warp already has another library's allocator ({type(current).__name__} on {device}); leave that "
                "warp.set_cuda_allocator out"
            )


def put() -> Undo:
    """Sets the allocator of every device; returns a function that undoes it."""
    for device in _warp.get_cuda_devices():
        _warp.set_device_allocator(device, Allocator(device))
    return lambda: _warp.set_cuda_allocator(None)
