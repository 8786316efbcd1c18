# SPDX-License-Identifier: Apache-2.0
"""gpupool in cuStateVec, cuTensorNet and cuDSS, through their Python packages.

custatevec.set_device_mem_handler(handle, gpupool.cuquantum.mem_handler(0))
"""

from ._arguments import device_number
from ._error import check
from ._native import ffi, lib


def mem_handler(device: int = 0) -> tuple[int, int, int, str]:
    """The context, the two functions, as addresses, and the name of a device memory handler over default_pool(device):
    for set_device_mem_handler of cuquantum.bindings.custatevec and cutensornet. Memory is reused in its stream's order.
    Raises as default_pool. Since 0.2."""
    addresses = ffi.new("uintptr_t[3]")
    check(lib.gpupool_py_mem_handler(device_number("device", device), addresses))
    context, alloc, free = (int(address) for address in addresses)
    return context, alloc, free, "gpupool"


__all__ = ["mem_handler"]
