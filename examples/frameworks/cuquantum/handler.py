# SPDX-License-Identifier: Apache-2.0
"""cuStateVec with the pool for what it needs besides the state. Needs cuquantum-python and a GPU."""

from cuquantum.bindings import custatevec

import gpupool

handle = custatevec.create()
custatevec.set_device_mem_handler(handle, gpupool.cuquantum.mem_handler(0))
print(custatevec.get_device_mem_handler(handle))
custatevec.destroy(handle)
