#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast cached memory goes from one process to another that shares the GPU with it, step by step.

    share_bench.py [--device cuda:0] [--size 1GiB] [--block 256MiB] [--chunk 16MiB] [--pause 0.2] [--rounds 60]

A rich process has six times `size` cached, which is all that the group may have; a poor one has nothing. Prints how
long the poor one's mallocs of `size` take, in blocks of `block`, driver calls included: while there is room, and when
the rich one has to give. Then, for each of both, which driver calls each process made, and how long they took; what is
left of the poor one's time is waiting and bookkeeping. `chunk` is the most that a chunk has (default: the pool's own
choice). Both processes do nothing for `pause` seconds before the poor one asks.

    GPUPOOL_BACKEND=sim GPUPOOL_SIM_SHARED=bench GPUPOOL_SIM=data=0,time=real share_bench.py --device sim

measures the same without a GPU, with calls that take as long as an H200's.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import gpupool

STEPS = ("create", "map", "set_access", "unmap", "release", "query", "host_wait", "address")


def driver_calls(pool):
    driver = pool.stats().driver
    return {step: (getattr(driver, step).count, getattr(driver, step).nanoseconds) for step in STEPS}


def member(device, block, chunk):
    """Does as it is told, a line at a time, and answers with what it came to: "take BYTES", "empty", "look"."""
    pool = gpupool.Pool(device, share="bench", max_chunk_bytes=chunk)
    for line in sys.stdin:
        word, *rest = line.split()
        before = driver_calls(pool)
        start = time.perf_counter_ns()
        times = [start]
        blocks = []
        for _ in range(int(rest[0]) // block if word == "take" else 0):
            blocks.append(pool.malloc(block))
            times.append(time.perf_counter_ns())
        calls = driver_calls(pool)
        if word != "look":
            calls = {step: (calls[step][0] - before[step][0], calls[step][1] - before[step][1]) for step in STEPS}
        for each in blocks:
            pool.free(each)
        if word == "empty":
            pool.empty_cache()
        each_ns = [after - earlier for earlier, after in itertools.pairwise(times)]
        print(json.dumps({"ns": times[-1] - start, "each": each_ns, "calls": calls}), flush=True)


def tell(process, *words):
    print(*words, file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())


def report(what, found):
    times = sorted(each["ns"] / 1e6 for each in found)
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"{what:24} p50 {middle:8.2f} ms, p99 {late:8.2f} ms, least {times[0]:8.2f} ms")
    each = [statistics.median(one["each"][i] for one in found) / 1e6 for i in range(len(found[0]["each"]))]
    print(f"    malloc by malloc     {' '.join(f'{one:.2f}' for one in each)} ms")


def report_calls(who, calls, rounds):
    print(f"    {who:20} ", end="")
    print(
        ", ".join(
            f"{step} {count / rounds:.0f} x {ns / count / 1e3:.1f} us = {ns / rounds / 1e6:.2f} ms"
            for step, (count, ns) in calls.items()
            if count != 0
        )
        or "no driver call"
    )


def added(calls):
    return {step: tuple(sum(each[step][i] for each in calls) for i in (0, 1)) for step in STEPS}


def measure(poor, rich, size, rounds, pause):
    found = {"there is room": [], "the neighbour has it": []}
    given = []
    for _ in range(rounds):
        tell(rich, "empty")
        time.sleep(pause)
        found["there is room"].append(tell(poor, "take", size))
        tell(poor, "empty")
        tell(rich, "take", 6 * size)
        before = tell(rich, "look")["calls"]
        time.sleep(pause)
        found["the neighbour has it"].append(tell(poor, "take", size))
        after = tell(rich, "look")["calls"]
        given.append({step: tuple(after[step][i] - before[step][i] for i in (0, 1)) for step in STEPS})
        tell(poor, "empty")
    for what, each in found.items():
        report(what, each)
        report_calls("the poor one's calls", added([one["calls"] for one in each]), rounds)
    report_calls("the rich one's calls", added(given), rounds)


def main(given):
    size = gpupool.parse_size(given.size)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GPUPOOL_SHARE_DIR": folder, "GPUPOOL_SHARE_LIMIT": str(6 * size)}
        command = [sys.executable, __file__, "--member", "--device", given.device]
        command += ["--block", given.block, "--chunk", given.chunk]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        poor, rich = (subprocess.Popen(command, env=environment, **pipes) for _ in range(2))
        measure(poor, rich, size, given.rounds, given.pause)
        for process in (poor, rich):
            process.stdin.close()
            process.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--block", default="256MiB")
    parser.add_argument("--chunk", default="")
    parser.add_argument("--pause", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        member(given.device, gpupool.parse_size(given.block), given.chunk or 0)
    else:
        main(given)
