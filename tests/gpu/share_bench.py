#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast cached memory goes from one process to another that shares the GPU with it.

    share_bench.py [--device cuda:0] [--size 1GiB] [--rounds 60]

A rich process has six times `size` cached, which is all that the group may have; a poor one has nothing. Prints how
long the poor one's mallocs of `size` take, in blocks of 256 MiB and driver calls included: while there is room, and
when the rich one has to give.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import gpupool

BLOCK = 256 << 20  # in chunks of 16 MiB


def member(device):
    """Does as it is told, a line at a time, and answers with nanoseconds: "take BYTES", "empty"."""
    pool = gpupool.Pool(device, share="bench")
    for line in sys.stdin:
        word, *rest = line.split()
        start = time.perf_counter_ns()
        blocks = [pool.malloc(BLOCK) for _ in range(int(rest[0]) // BLOCK)] if word == "take" else []
        elapsed = time.perf_counter_ns() - start
        for block in blocks:
            pool.free(block)
        if word == "empty":
            pool.empty_cache()
        print(elapsed, flush=True)


def tell(process, *words):
    print(*words, file=process.stdin, flush=True)
    return int(process.stdout.readline())


def report(what, nanoseconds):
    times = sorted(each / 1e6 for each in nanoseconds)
    middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"{what:24} p50 {middle:8.2f} ms, p99 {late:8.2f} ms, least {times[0]:8.2f} ms")


def main(device, size, rounds):
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GPUPOOL_SHARE_DIR": folder, "GPUPOOL_SHARE_LIMIT": str(6 * size)}
        command = [sys.executable, __file__, "--device", device, "--member"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        poor, rich = (subprocess.Popen(command, env=environment, **pipes) for _ in range(2))
        found = {"there is room": [], "the neighbour has it": []}
        for _ in range(rounds):
            tell(rich, "empty")
            found["there is room"].append(tell(poor, "take", size))
            tell(poor, "empty")
            tell(rich, "take", 6 * size)
            time.sleep(0.2)  # one that gave and took again rests
            found["the neighbour has it"].append(tell(poor, "take", size))
            tell(poor, "empty")
        for process in (poor, rich):
            process.stdin.close()
            process.wait(30)
    for what, times in found.items():
        report(what, times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        member(given.device)
    else:
        main(given.device, gpupool.parse_size(given.size), given.rounds)
