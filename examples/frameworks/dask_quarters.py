# SPDX-License-Identifier: Apache-2.0
"""Four Dask workers on one GPU. Each gets the quarter that its resource says, and no more.

python dask_quarters.py

Without a GPU, all processes can share a simulated one: GPUPOOL_BACKEND=sim GPUPOOL_SIM_SHARED=test.
"""

import os

from distributed import Client, LocalCluster

import gpupool


def fill():
    """Takes all that this worker may have; returns how much that was, and how large the device is."""
    pool, blocks = gpupool.default_pool(0), []
    try:
        while True:
            blocks.append(pool.alloc("64MiB"))
    except gpupool.OverLimitError:
        return pool.memory_reserved(), pool.device_info().total_bytes


def main():
    os.environ.setdefault("GPUPOOL_SHARE", "team")  # what one has cached is there for the others
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, resources={"GPU": 0.25}, preload=["gpupool.dask"]) as cluster,
        Client(cluster) as client,
    ):
        found = list(client.run(fill).values())
        taken, device = sum(each[0] for each in found), found[0][1]
        print(f"{len(found)} workers hold {taken / (1 << 30):.2f} GiB of {device / (1 << 30):.2f} GiB")
        assert len(found) == 4 and taken <= device and max(each[0] for each in found) <= device // 4


if __name__ == "__main__":
    main()
