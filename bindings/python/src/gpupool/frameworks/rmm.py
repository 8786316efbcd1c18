# SPDX-License-Identifier: Apache-2.0
"""gpupool in RMM, and so in cuDF, cuML and other libraries that take their memory from RMM.

    gpupool.install("rmm")
    rmm.mr.set_current_device_resource(gpupool.rmm.resource(0))         # or for one device

Here RMM calls Python for each block. C++ programs use include/gpupool/cuda_mr.hpp, which avoids that cost.
"""

from __future__ import annotations

import importlib
from typing import Any

from .._library import device_count
from . import Undo
from ._pools import free_last, pool_of

_rmm: Any = importlib.import_module("rmm")


def resource(device: int) -> Any:
    """An RMM memory resource on the default pool of a device. A shortage raises MemoryError."""

    def allocate(size: int, stream: Any) -> int:
        return pool_of(device).malloc(size, stream)

    def deallocate(address: int, size: int, stream: Any) -> None:
        free_last(device, address, stream)

    return _rmm.mr.CallbackMemoryResource(allocate, deallocate)


def check() -> None:
    """Raises RuntimeError if RMM's streams do not say which they are, or RMM already has a pool."""
    if tuple(map(int, _rmm.__version__.split(".")[:2])) < (25, 12):
        raise RuntimeError(f"gpupool needs RMM 25.12, whose streams have numbers; this is {_rmm.__version__}")
    for device in range(device_count()):
        current = type(_rmm.mr.get_per_device_resource(device)).__name__
        if current not in ("CudaMemoryResource", "CallbackMemoryResource"):
            raise RuntimeError(
                f"RMM already has a {current} for device {device}; leave rmm.reinitialize and "
                "set_current_device_resource out"
            )


def put() -> Undo:
    """Sets the resource of every device; returns a function that undoes it."""
    before = {device: _rmm.mr.get_per_device_resource(device) for device in range(device_count())}
    for device in before:
        _rmm.mr.set_per_device_resource(device, resource(device))

    def undo() -> None:
        for device, old in before.items():
            _rmm.mr.set_per_device_resource(device, old)

    return undo
