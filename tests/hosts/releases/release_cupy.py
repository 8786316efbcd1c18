# SPDX-License-Identifier: Apache-2.0
"""CuPy, whose runtime wants a GPU before it asks an allocator for memory."""

import steps

steps.use()
import cupy as library
from gpupool.frameworks import _cupy_pool
from gpupool.frameworks import cupy as ours

ours.check()
assert library.cuda.Stream.__del__.__module__.startswith("gpupool."), "streams that end are released"
theirs = {name for name in dir(library.cuda.MemoryPool) if not name.startswith("_")}
assert theirs - set(dir(_cupy_pool.DefaultPool)) == set(), "what get_default_memory_pool() has"
assert library.cuda.memory.OutOfMemoryError(1, 2).args
with library.cuda.using_allocator(ours.allocator):
    assert library.cuda.get_allocator() == ours.allocator
    try:
        memory = library.cuda.alloc(1000)
    except library.cuda.runtime.CUDARuntimeError as error:
        steps.came(steps.IMPORTED, error)
    else:
        assert steps.held() == 1024
        del memory
        assert steps.held() == 0
        steps.came(steps.RAN)
