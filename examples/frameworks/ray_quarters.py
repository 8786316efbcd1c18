# SPDX-License-Identifier: Apache-2.0
"""Four Ray actors on one GPU. Each gets the quarter that num_gpus=0.25 says, and no more.

python ray_quarters.py

Without a GPU, all processes can share a simulated one: GPUPOOL_BACKEND=sim GPUPOOL_SIM_SHARED=test.
"""

import ray

import gpupool


@ray.remote(num_gpus=0.25, num_cpus=0)
class Worker:
    def fill(self):
        """Takes all that this worker may have; returns how much that was, and how large the device is."""
        pool, blocks = gpupool.default_pool(0), []
        try:
            while True:
                blocks.append(pool.alloc("64MiB"))
        except gpupool.OverLimitError:
            return pool.memory_reserved(), pool.device_info().total_bytes


# With frameworks: gpupool.ray.runtime_env(install=["torch", "cupy"], share="team")
ray.init(num_gpus=1, include_dashboard=False, runtime_env=gpupool.ray.runtime_env(share="team"))
workers = [Worker.remote() for _ in range(4)]
found = ray.get([worker.fill.remote() for worker in workers])
taken, device = sum(each[0] for each in found), found[0][1]
print(f"{len(found)} workers hold {taken / (1 << 30):.2f} GiB of {device / (1 << 30):.2f} GiB")
assert taken <= device and max(each[0] for each in found) <= device // 4
ray.shutdown()
