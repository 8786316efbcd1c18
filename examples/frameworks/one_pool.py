# SPDX-License-Identifier: Apache-2.0
"""Five libraries on one pool: each reuses what the previous one freed, and nothing more is reserved.

python one_pool.py
"""

import cupy
import gpupool
import torch
from numba import cuda

gpupool.install("torch", "cupy", "numba", "cuda.core", "triton", cap="40%")

from cuda.core import Device  # noqa: E402

GIB = 1 << 30
pool = gpupool.default_pool(0)
device = Device(0)
device.set_current()

makers = {
    "PyTorch": lambda: torch.empty(GIB, dtype=torch.uint8, device="cuda"),
    "CuPy": lambda: cupy.empty(GIB, cupy.uint8),
    "Numba": lambda: cuda.device_array(GIB, "u1"),
    "cuda.core": lambda: device.allocate(GIB, stream=device.default_stream),
    "Triton": lambda: gpupool.triton.allocator(GIB, 128, 0),
}

print(f"{'library':10} {'allocated':>12} {'reserved':>12}")
for name, make in makers.items():
    memory = make()
    print(f"{name:10} {pool.memory_allocated() / GIB:8.3f} GiB {pool.memory_reserved() / GIB:8.3f} GiB")
    del memory

# The same, passed from one to the other without a copy.
tensor = torch.arange(5, device="cuda")
array = cupy.from_dlpack(tensor)
array *= 2
print("PyTorch sees what CuPy wrote:", tensor.tolist())

assert pool.max_memory_reserved() < 1.1 * GIB
