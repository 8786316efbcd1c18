# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415  each run imports one framework
"""The cost of allocating and freeing in each framework, with its own allocator and with gpupool.

python pairs.py             runs itself once for each framework and allocator, and prints a table
"""

import gc
import json
import subprocess
import sys
import time


def maker(framework):
    """A function that allocates this many bytes. The GPU is already in use, as in any program."""
    if framework == "cupy":
        import cupy

        cupy.arange(10).sum()
        return lambda size: cupy.empty(size, cupy.uint8)
    if framework == "numba":
        from numba import cuda

        return lambda size: cuda.device_array(size, "u1")
    if framework == "cuda.core":
        from cuda.core import Device

        device = Device(0)
        device.set_current()
        stream = device.default_stream
        return lambda size: device.allocate(size, stream=stream)
    if framework == "rmm":
        import rmm

        rmm.DeviceBuffer.to_device(b"used")
        return lambda size: rmm.DeviceBuffer(size=size)
    import warp

    return lambda size: warp.empty(size, dtype=warp.uint8, device="cuda:0")


def nanoseconds(make, size, seconds=0.4):
    """The time of one pair, the median of several rounds."""
    for _ in range(200):
        make(size)
    rounds = []
    gc.disable()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 5:
        start = time.perf_counter_ns()
        for _ in range(200):
            make(size)
        rounds.append((time.perf_counter_ns() - start) / 200)
    gc.enable()
    return sorted(rounds)[len(rounds) // 2]


def main():
    if len(sys.argv) == 3:
        framework, allocator = sys.argv[1:]
        if allocator == "gpupool":
            import gpupool

            gpupool.install(framework)
        make = maker(framework)
        print(json.dumps([nanoseconds(make, 4096), nanoseconds(make, 1 << 20)]))
        return
    print(f"{'nanoseconds a pair':20} {'4 KiB':>22} {'1 MiB':>22}")
    print(f"{'':20} {'native':>11}{'gpupool':>11} {'native':>11}{'gpupool':>11}")
    for framework in ("cupy", "numba", "cuda.core", "rmm", "warp"):
        found = []
        for allocator in ("native", "gpupool"):
            done = subprocess.run(
                [sys.executable, __file__, framework, allocator], capture_output=True, text=True, check=False
            )
            found.append(json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None)
        if None in found:
            print(f"{framework:20} cannot run here")
            continue
        native, ours = found
        print(f"{framework:20} {native[0]:11.0f}{ours[0]:11.0f} {native[1]:11.0f}{ours[1]:11.0f}")


if __name__ == "__main__":
    main()
