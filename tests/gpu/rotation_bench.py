#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines in processes of their own take turns on one GPU that has no room for all of them, as fast as they can.

    rotation_bench.py [--rotations 1000] [--engines 8] [--part 0.15] [--save 512MiB] [--device cuda:0]

Each engine has four blocks that are saved (--save in all) and a cache that is dropped; together they are --part of the
device. In each turn it wakes, compares its saved bytes with what it wrote in its last turn (all of one block, and some
of the others), writes new ones and a part of the cache, and sleeps. Exits with 1 if one is out of memory or finds wrong
bytes, if more are awake than the device has room for, or if the device has less free at the end than before. It also
runs on the simulated device, if processes share that:

    GPUPOOL_SIM_SHARED=rotation GPUPOOL_SIM=capacity=512MiB rotation_bench.py --device sim --save 4MiB
"""

import argparse
import ctypes
import multiprocessing
import queue
import sys
import time

import gpupool

MIB = 1 << 20
PATIENCE = 300  # seconds; for one turn


def is_filled(pool, block, size, value):
    """Whether all of the block's bytes are the value, looked at in pieces on the host."""
    piece = min(size, 16 * MIB)
    expected = bytes([value]) * piece
    there = ctypes.create_string_buffer(piece)
    for offset in range(0, size, piece):
        count = min(piece, size - offset)
        pool.copy(ctypes.addressof(there), block + offset, count)
        pool.synchronize()
        if there.raw[:count] != expected[:count]:
            return False
    return True


def live(number, given, barrier, awake, results):
    """One engine: reports its waits and its wakes, in seconds, or what went wrong."""
    waits, wakes, sleeps = [], [], []
    try:
        with gpupool.Pool(given.device) as pool:
            size = int(pool.device_info().total_bytes * given.part)
            # One after another: there is no room for two.
            for turn in range(given.engines):
                if turn == number:
                    saved = [pool.malloc(given.save // 4) for _ in range(4)]
                    cache = pool.malloc(size - given.save)
                    for block in saved:
                        pool.set_keep(block)
                        pool.fill(block, number, given.save // 4)
                    pool.synchronize()
                    pool.prepare_backup(given.save)
                    pool.sleep("drop")
                barrier.wait(PATIENCE)
            value = number
            for turn in range(given.rotations // given.engines):
                start = time.monotonic()
                woken = pool.wake(timeout=PATIENCE, retain_backup=True)
                waits.append(time.monotonic() - start)
                wakes.append(woken.nanoseconds / 1e9)
                with awake.get_lock():
                    awake.value += 1
                    if awake.value * size > pool.device_info().total_bytes:
                        raise AssertionError(f"{awake.value} engines are awake")
                block = saved[turn % len(saved)]
                for each in saved:
                    looked = given.save // 4 if each == block else 4096
                    if not is_filled(pool, each, looked, value):
                        raise AssertionError(f"wrong bytes in turn {turn}")
                value = (value + 8) % 256
                for each in saved:
                    pool.fill(each, value, given.save // 4)
                pool.fill(cache + turn * MIB % (size - given.save - MIB), value, MIB)
                pool.synchronize()
                with awake.get_lock():
                    awake.value -= 1
                sleeps.append(pool.sleep("drop").nanoseconds / 1e9)
            barrier.wait(PATIENCE)
            for each in (*saved, cache):
                pool.free(each)
        results.put((number, "", waits, wakes, sleeps))
    except Exception as error:
        results.put((number, f"{type(error).__name__}: {error}", waits, wakes, sleeps))
        barrier.abort()


def gather(given, engines, results):
    """What each engine came to, and of those that died without a word, that."""
    reports = []
    while len(reports) < len(engines):
        try:
            reports.append(results.get(timeout=1))
        except queue.Empty:
            known = {number for number, *_ in reports}
            for number, engine in enumerate(engines):
                if engine.exitcode is not None and engine.exitcode != 0 and number not in known:
                    reports.append((number, f"ended with {engine.exitcode}", [], [], []))
    return reports


def middle_and_last(times):
    ordered = sorted(times)
    return f"{ordered[len(ordered) // 2] * 1e3:.1f} ms p50, {ordered[-1] * 1e3:.1f} ms at most"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rotations", type=int, default=1000)
    parser.add_argument("--engines", type=int, default=8)
    parser.add_argument("--part", type=float, default=0.15)
    parser.add_argument("--save", type=gpupool.parse_size, default="512MiB")
    parser.add_argument("--device", default="cuda:0")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    barrier, awake, results = context.Barrier(given.engines), context.Value("i", 0), context.Queue()
    free_before = gpupool.device_info(given.device).free_bytes
    engines = [
        context.Process(target=live, args=(number, given, barrier, awake, results)) for number in range(given.engines)
    ]
    start = time.monotonic()
    for engine in engines:
        engine.start()
    reports = gather(given, engines, results)
    for engine in engines:
        engine.join()
    took = time.monotonic() - start
    failures = [f"engine {number}: {failure}" for number, failure, *_ in sorted(reports) if failure]
    if failures:
        sys.exit("\n".join(failures))
    waits, wakes, sleeps = ([time for report in reports for time in report[kind]] for kind in (2, 3, 4))
    left = free_before - gpupool.device_info(given.device).free_bytes
    print(
        f"{len(wakes)} rotations of {given.engines} engines in {took:.1f} s, starts included: none out of memory, no "
        f"wrong byte, {left} bytes left on the device"
    )
    print(f"asleep: {middle_and_last(sleeps)}")
    print(f"awake, with the wait for the others' memory: {middle_and_last(waits)}")
    turns = [len(report[2]) for report in reports]
    print(f"turns of each engine: {min(turns)} to {max(turns)}; longest wait of each engine, in seconds:")
    print("  " + ", ".join(f"{max(report[2]):.2f}" for report in sorted(reports)))
    if left > 2 * MIB:
        sys.exit("rotating leaves something behind")


if __name__ == "__main__":
    main()
