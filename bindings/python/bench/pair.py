# SPDX-License-Identifier: Apache-2.0
"""Prints what a cached malloc+free pair costs from Python, on a simulated device: one line of JSON."""

import json
import os
import statistics
import sys
import time

import gpupool

PAIRS = 20_000
ROUNDS = 25


def pair_ns(pool: gpupool.Pool, size: int) -> float:
    """The median of several rounds, loop included."""
    malloc, free = pool.malloc, pool.free
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(PAIRS):
            free(malloc(size))
        rounds.append((time.perf_counter_ns() - start) / PAIRS)
    return statistics.median(rounds)


def main() -> None:
    os.environ["GPUPOOL_BACKEND"] = "sim"
    gpupool.sim.configure(0, data=False)
    with gpupool.Pool() as pool:
        pairs = {f"pair_ns_{name}": round(pair_ns(pool, size), 1) for name, size in (("4k", 4096), ("1m", 1 << 20))}
    json.dump({"language": "python", **pairs}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
