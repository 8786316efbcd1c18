# SPDX-License-Identifier: Apache-2.0
"""Numba's memory pointers over a pool."""

from types import SimpleNamespace

import steps

steps.use()
import gpupool
from gpupool.frameworks import numba as ours
from numba import cuda
from numba.cuda.cudadrv import driver


class Context(SimpleNamespace):
    """A manager belongs to one."""


ours.check()
undo = ours.put()
assert driver._memory_manager is ours.MemoryManager
undo()
context = Context(device=SimpleNamespace(id=0))
manager = ours.MemoryManager(context=context)
assert isinstance(manager, cuda.HostOnlyCUDAMemoryManager)
pointer = manager.memalloc(1000)
assert gpupool.default_pool(0).block_info(pointer.device_pointer_value).requested_bytes == 1000
assert pointer.view(16, 32).device_pointer_value == pointer.device_pointer_value + 16
info = manager.get_memory_info()
assert info.total - info.free == 1024
del pointer
assert steps.held() == 0
try:
    manager.memalloc(1 << 50)
    raise AssertionError("the device is smaller")
except driver.CudaAPIError as error:
    assert error.code == 2 and "gpupool" not in str(error.code)
steps.came(steps.RAN)
