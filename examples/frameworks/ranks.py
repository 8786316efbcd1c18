# SPDX-License-Identifier: Apache-2.0
"""Each rank on its device, with its share of it, whatever launcher started it:

torchrun --nproc-per-node 4 ranks.py
mpirun -n 4 python ranks.py
srun --ntasks-per-node 4 --gpus-per-node 2 python ranks.py
"""

import gpupool

place = gpupool.launch.adopt()
# With PyTorch: torch.cuda.set_device(place.device)
pool = gpupool.default_pool(place.device)
size = pool.device_info().total_bytes
blocks = []
try:
    while True:
        blocks.append(pool.alloc(size // 64))
except (gpupool.OverLimitError, gpupool.OutOfMemoryError):
    taken = pool.memory_reserved()
print(
    f"rank {place.rank}: device {place.device}, {taken / size:.0%} of it, by {place.launcher or 'nobody'}", flush=True
)
assert taken <= size * place.share
