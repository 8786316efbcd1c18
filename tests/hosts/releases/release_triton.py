# SPDX-License-Identifier: Apache-2.0
"""Triton's allocator of scratch memory. Kernels need a GPU, so a stand-in for Triton's driver says which one."""

from types import SimpleNamespace

import steps

steps.use()
import triton as library
from gpupool.frameworks import triton as ours

ours.check()
undo = ours.put()


def current() -> object:
    found = library.runtime._allocation._allocator
    return found.get() if hasattr(found, "get") else found


assert current() is ours.allocator
undo()
assert current() is not ours.allocator
library.runtime.driver.set_active(SimpleNamespace(get_current_device=lambda: 0, get_current_stream=lambda device: 0))
memory = ours.allocator(1000, 128, None)
assert steps.held() == 1024 and memory.data_ptr() % 128 == 0
del memory
assert steps.held() == 0
steps.came(steps.IMPORTED)
