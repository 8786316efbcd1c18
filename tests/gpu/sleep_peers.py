#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times pause and resume of tensors under torch_memory_saver's calls: ours, or the original's, one in a process.

    sleep_peers.py gpupool        gpupool.install("torch_memory_saver"), with PyTorch's own allocator
    sleep_peers.py gpupool_shim   the same, and gpupool.install("torch")
    sleep_peers.py original       torch_memory_saver itself, as an allocator of PyTorch's (hook_mode "torch")
    sleep_peers.py preload        the same by its library in LD_PRELOAD, which the caller sets

Needs a GPU with 80 GiB, PyTorch, and the package that is timed. Saved are 256 tensors of 64 MiB, whose bytes are
compared, dropped 60 tensors of 1 GiB. Run one after the other on one machine: page-locking is most of a first pause,
and its speed differs between hosts.
"""

import importlib
import sys
import time

import torch

WAYS = ("gpupool", "gpupool_shim", "original", "preload")
GIB = 1 << 30


def saver_of(way):
    """The object with torch_memory_saver's calls."""
    if way.startswith("gpupool"):
        gpupool = importlib.import_module("gpupool")
        if way == "gpupool_shim":
            gpupool.install("torch")
        gpupool.install("torch_memory_saver")
    saver = importlib.import_module("torch_memory_saver").torch_memory_saver
    if way == "original":
        saver.hook_mode = "torch"
    return saver


def milliseconds(call, *arguments):
    torch.cuda.synchronize()
    start = time.perf_counter()
    call(*arguments)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def free_gib():
    return torch.cuda.mem_get_info()[0] / GIB


def turns(way, saver, what, tag, count, are_right=lambda: True):
    """Pauses and resumes a tag, and prints a line each time."""
    for turn in range(count):
        before = free_gib()
        paused = milliseconds(saver.pause, tag)
        came_free = free_gib() - before
        resumed = milliseconds(saver.resume, tag)
        if not are_right():
            sys.exit(f"{way}: wrong bytes after {what}")
        print(
            f"{way}: {what} {turn}: pause {paused:.1f} ms, resume {resumed:.1f} ms, {came_free:.2f} GiB came free",
            flush=True,
        )


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit(f"which way? {', '.join(WAYS)}")
    way = sys.argv[1]
    saver = saver_of(way)
    with saver.region("weights", enable_cpu_backup=True):
        weights = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(256)]
    for value, tensor in enumerate(weights):
        tensor.fill_(value % 251 + 1)
    with saver.region("cache"):
        cache = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(60)]
    for tensor in cache:
        tensor.fill_(7)

    def are_right():
        return all(bool((tensor == value % 251 + 1).all()) for value, tensor in enumerate(weights))

    turns(way, saver, "16 GiB saved", "weights", 2, are_right)
    saver.retain_cpu_backup = True
    turns(way, saver, "16 GiB saved, backup retained", "weights", 3, are_right)
    turns(way, saver, "60 GiB dropped", "cache", 4)


if __name__ == "__main__":
    main()
