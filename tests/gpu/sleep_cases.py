# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415  each case imports its frameworks itself
"""Cases of test_sleep.py: each runs in a process of its own, on a GPU, and prints its figures.

sleep_cases.py CASE       GPUPOOL_CYCLES in the environment says how many cycles case_s6_... has, else 500
"""

import ctypes
import multiprocessing
import os
import sys
import time
from pathlib import Path

import gpupool

CYCLES = int(os.environ.get("GPUPOOL_CYCLES", "500"))
MIB = 1 << 20
GIB = 1 << 30


def driver():
    return ctypes.CDLL("libcuda.so.1")


def free_bytes():
    return gpupool.device_info(0).free_bytes


def holds(pool, block, size, value):
    """Whether the bytes are the value at 64 places, the ends among them."""
    piece = ctypes.create_string_buffer(4096)
    for i in range(64):
        pool.copy(ctypes.addressof(piece), block + (size - 4096) * i // 63 // 512 * 512, 4096)
        pool.synchronize()
        if piece.raw != bytes([value]) * 4096:
            return False
    return True


def resident_bytes():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def case_s6_nothing_is_left_over_five_hundred_cycles():
    with gpupool.Pool("cuda:0") as pool:
        block = pool.malloc(2 * GIB)
        start, free, resident = time.monotonic(), set(), 0
        for cycle in range(CYCLES):
            saves = cycle % 10 == 0
            if saves:
                pool.fill(block, cycle // 10, 2 * GIB)
            pool.sleep("save" if saves else "drop", sync_context=True)
            free.add(free_bytes())
            pool.wake(retain_backup=True)
            assert not saves or holds(pool, block, 2 * GIB, cycle // 10 % 256), cycle
            if cycle == CYCLES // 5:
                resident = resident_bytes()
        left, grown = max(free) - min(free), resident_bytes() - resident
        print(
            f"{CYCLES} cycles of 2 GiB in {time.monotonic() - start:.1f} s: what is free asleep differs by {left} "
            f"bytes, the process has {grown / MIB:.1f} MiB more than after a fifth of them"
        )
        assert left <= 2 * MIB, sorted(free)
        assert grown <= 8 * MIB
        pool.free(block)


def case_s9_work_that_is_queued_is_waited_for():
    import torch
    from gpupool.torch import sleep

    with sleep.region("w", enable_cpu_backup=True):
        tensors = [torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    streams = [torch.cuda.Stream() for _ in range(3)] + [torch.cuda.default_stream()]
    torch.cuda.synchronize()
    for tensor, stream in zip(tensors, streams, strict=True):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            tensor.add_(7)
    sleep.pause("w")
    sleep.resume("w")
    assert all(bool((tensor == 7).all()) for tensor in tensors)


def case_s13_memory_that_somebody_holds_is_reported():
    cuda = driver()
    with gpupool.Pool("cuda:0") as pool:
        block, other = pool.malloc(2 * MIB), pool.malloc(64 * MIB)
        assert pool.sleep().retained_bytes == 0
        pool.wake()
        handle = ctypes.c_ulonglong()
        assert cuda.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(block)) == 0
        assert pool.sleep().retained_bytes >= 2 * MIB
        assert cuda.cuMemRelease(handle) == 0
        pool.wake()
        pool.free(block)
        pool.free(other)


def case_s14_legacy_ipc_is_refused_by_the_driver():
    cuda = driver()
    with gpupool.Pool("cuda:0", mode="vmm") as pool:
        block = pool.malloc(4 * MIB)
        handle = (ctypes.c_char * 64)()
        assert cuda.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(block)) != 0
        pool.sleep()
        pool.wake()
        pool.free(block)


def _graph_runs_after_cycles(torch, sleep):
    with sleep.region("g", enable_cpu_backup=True):
        given = torch.zeros(1024, 1024, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        (given @ given).sum()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with sleep.cuda_graph(graph, tag="g", enable_cpu_backup=True):
        product = given @ given  # a kernel
        copied = torch.empty_like(product)
        copied.copy_(product)  # a memcpy
        zeroed = torch.zeros_like(product)  # a memset
        part = copied[:, :512].contiguous()  # rows with a pitch
        result = copied + zeroed
    for cycle in range(100):
        sleep.pause("g")
        sleep.resume("g")
        given.fill_(cycle % 7 + 1)
        graph.replay()
        torch.cuda.synchronize()
        expected = 1024.0 * (cycle % 7 + 1) ** 2
        assert bool((result == expected).all()) and bool((part == expected).all()), cycle


def case_s16_graphs_run_after_a_hundred_cycles():
    import torch
    from gpupool.torch import sleep

    _graph_runs_after_cycles(torch, sleep)


def case_s16_graphs_run_after_a_hundred_cycles_with_the_shim():
    import torch

    gpupool.install("torch")
    from gpupool.torch import sleep

    _graph_runs_after_cycles(torch, sleep)


def case_s7_s26_pytorchs_figures_fall_with_the_shim():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    gpupool.install("torch")
    from gpupool.torch import sleep

    outside = torch.ones(64 * MIB, device="cuda")
    with sleep.region("w", enable_cpu_backup=True):
        inside = torch.ones(256 * MIB, device="cuda")
    reserved = torch.cuda.memory_reserved()
    sleep.pause("w")
    assert torch.cuda.memory_reserved() <= reserved - GIB
    sleep.resume("w")
    assert torch.cuda.memory_reserved() == reserved
    assert bool((inside == 1).all()) and bool((outside == 1).all())


def case_the_surface_of_torch_memory_saver():
    gpupool.install("torch_memory_saver")
    import torch
    import torch_memory_saver

    saver = torch_memory_saver.torch_memory_saver
    with saver.region("weights", enable_cpu_backup=True):
        model = torch.nn.Linear(8192, 8192, device="cuda")
    with saver.region("kv_cache"):
        cache = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    given = torch.randn(16, 8192, device="cuda")
    before, weights, awake = model(given), model.weight.detach().cpu(), free_bytes()
    saver.pause()
    assert free_bytes() >= awake + GIB + 8192 * 8192 * 4
    assert torch.equal(saver.get_cpu_backup(model.weight.detach()), weights)
    saver.pause()
    saver.resume("weights")
    assert torch.equal(model(given), before)
    saver.resume()
    cache.fill_(3)
    assert int(cache[-1]) == 3


def case_s34_peers_have_access_again():
    import torch

    with gpupool.Pool("cuda:0", peers=[1]) as pool:
        block = pool.malloc(64 * MIB)
        pool.fill(block, 5, 64 * MIB)
        pool.sleep()
        pool.wake()
        there = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda:1")
        with torch.cuda.device(1):
            cuda = driver()
            assert cuda.cuMemcpyDtoD_v2(ctypes.c_uint64(there.data_ptr()), ctypes.c_uint64(block), 64 * MIB) == 0
        assert bool((there == 5).all())
        pool.free(block)


def _prepare(connection):
    with gpupool.Pool("cuda:0") as pool:
        connection.recv()
        start = time.monotonic()
        pool.prepare_backup(32 * GIB)
        connection.send(time.monotonic() - start)
        connection.recv()


def _waits_until(is_over):
    """How long each of another process's questions to the driver took, in milliseconds, the longest last."""
    waits = []
    while not is_over():
        start = time.monotonic()
        free_bytes()
        waits.append((time.monotonic() - start) * 1e3)
    return sorted(waits)


def case_s41_preparing_does_not_hold_up_others():
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    other = context.Process(target=_prepare, args=(there,))
    other.start()
    free_bytes()
    end = time.monotonic() + 2
    alone = _waits_until(lambda: time.monotonic() > end)
    here.send("begin")
    beside = _waits_until(here.poll)
    took = here.recv()
    here.send("end")
    other.join(120)
    assert other.exitcode == 0
    for name, waits in (("before", alone), ("meanwhile", beside)):
        print(
            f"cuMemGetInfo of another process, {name}: {len(waits)} calls, {waits[len(waits) // 2]:.2f} ms p50, "
            f"{waits[len(waits) * 99 // 100]:.2f} ms p99, {waits[-1]:.1f} ms at most"
        )
    print(f"32 GiB were page-locked in {took:.1f} s")
    assert beside[-1] <= 100, beside[-1]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
