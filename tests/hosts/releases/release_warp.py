# SPDX-License-Identifier: Apache-2.0
"""Warp's allocators, which it accepts for GPUs only."""

import inspect
from types import SimpleNamespace

import steps

steps.use()
import warp as library
from gpupool.frameworks import warp as ours

ours.check()
ours.put()  # there is no device to put it on
device = SimpleNamespace(ordinal=0, stream=SimpleNamespace(cuda_stream=0, owner=False))
library.get_device = lambda _: device
allocator = ours.Allocator(device)
assert library.Stream.__del__.__module__.startswith("gpupool."), "streams that end are released"
theirs = type(library.get_device_allocator("cpu"))
for name in ("allocate", "deallocate"):
    assert list(inspect.signature(getattr(theirs, name)).parameters) == list(
        inspect.signature(getattr(ours.Allocator, name)).parameters
    ), name
allocator.deallocate(allocator.allocate(1000), 1000)
assert steps.held() == 0
assert callable(library.ScopedAllocator) and callable(library.set_cuda_allocator)
try:
    library.set_device_allocator("cpu", allocator)
    raise AssertionError("the CPU has another memory")
except RuntimeError as error:
    steps.came(steps.IMPORTED, error)
