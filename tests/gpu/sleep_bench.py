#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures sleep and wake on a GPU beside plain copies to page-locked memory, in one run.

    sleep_bench.py [--drop 60GiB] [--save 16GiB] [--cycles 20] [--device cuda:0]

Needs the gpupool package and a GPU; no framework. Prints a line for each figure, and checks the bytes: exits with 1 if
one is wrong, or if memory stays on the device while asleep. It also runs on the simulated device (--device sim), at a
small size and by the device's own clock.
"""

import argparse
import ctypes
import sys
import time

import gpupool

GIB = 1 << 30
MIB = 1 << 20


def gib_a_second(size, nanoseconds):
    return size / GIB / (max(nanoseconds, 1) / 1e9)


def plain_copies(device, size):
    """GiB/s of copies of 64 MiB between device and page-locked memory, each way, on two streams."""
    piece = 64 * MIB
    with gpupool.Pool(device) as pool, gpupool.Pool(device, mode="driver", kind="pinned") as pinned:
        streams = [pool.stream(), pool.stream()]
        there, here = pool.malloc(2 * piece), pinned.malloc(2 * piece)
        pool.synchronize()
        rates = []
        for to_host in (True, False):
            for warm in (True, False):
                count = 4 if warm else max(8, size // piece)
                start = time.monotonic_ns()
                for i in range(count):
                    part = i % 2 * piece
                    ends = (here + part, there + part) if to_host else (there + part, here + part)
                    pool.copy(*ends, piece, streams[i % 2])
                for stream in streams:
                    stream.synchronize()
                taken = time.monotonic_ns() - start
            rates.append(gib_a_second(count * piece, taken))
        pool.free(there)
        pinned.free(here)
        for stream in streams:
            stream.close()
    return rates


def measure_drop(device, size):
    with gpupool.Pool(device) as pool:
        block = pool.malloc(size)
        for name in ("first", "second", "third"):
            slept, woken = pool.sleep("drop", sync_context=True), pool.wake()
            print(
                f"drop {size / GIB:.1f} GiB, {name}: asleep in {slept.nanoseconds / 1e6:.1f} ms, awake in "
                f"{woken.nanoseconds / 1e6:.1f} ms, {slept.retained_bytes} bytes retained"
            )
        pool.free(block)


def check(pool, block, size, value):
    """Whether some of the bytes are what they were."""
    one = ctypes.create_string_buffer(4096)
    for offset in range(0, size - 4096, max(4096, size // 64 // 4096 * 4096)):
        pool.copy(ctypes.addressof(one), block + offset, 4096)
        pool.synchronize()
        if one.raw != bytes([value]) * 4096:
            sys.exit(f"wrong bytes at {offset} of {size}")


def measure_save(device, size, cycles, rates):
    with gpupool.Pool(device) as pool:
        block = pool.malloc(size)
        pool.fill(block, 0x5A, size)
        pool.synchronize()
        free_before = pool.device_info().free_bytes
        start = time.monotonic_ns()
        pool.prepare_backup(size)
        print(f"prepare {size / GIB:.1f} GiB: {gib_a_second(size, time.monotonic_ns() - start):.1f} GiB/s")
        for name in ("first", "second"):
            slept = pool.sleep(sync_context=True)
            gone = pool.device_info().free_bytes - free_before
            woken = pool.wake()
            save, wake = (gib_a_second(size, each.nanoseconds) for each in (slept, woken))
            print(
                f"save {size / GIB:.1f} GiB, {name}: {save:.1f} GiB/s ({save / rates[0]:.0%} of plain copies), "
                f"wake {wake:.1f} GiB/s ({wake / rates[1]:.0%}), {gone / GIB:.2f} GiB came free"
            )
            check(pool, block, size, 0x5A)
        free_asleep = set()
        for _ in range(cycles):
            pool.sleep("drop")
            free_asleep.add(pool.device_info().free_bytes)
            pool.wake()
        spread = max(free_asleep) - min(free_asleep) if free_asleep else 0
        print(f"{cycles} cycles: what is free asleep differs by {spread} bytes")
        if spread > 2 * MIB:
            sys.exit("sleeping leaves something behind")
        pool.free(block)


def measure_first_block(device, size):
    """One block of many, ahead of the others."""
    piece = min(256 * MIB, size // 4)
    with gpupool.Pool(device) as pool:
        blocks = [pool.malloc(piece) for _ in range(size // piece)]
        pool.fill(blocks[0], 0x3C, piece)
        pool.prepare_backup(size)
        for name in ("first", "second"):
            pool.sleep(sync_context=True)
            woken = pool.wake_block(blocks[0])
            check(pool, blocks[0], piece, 0x3C)
            rest = pool.wake()
            print(
                f"one block of {piece / MIB:.0f} MiB, {name}: there in {woken.nanoseconds / 1e6:.2f} ms, the other "
                f"{rest.saved_bytes / GIB:.1f} GiB in {rest.nanoseconds / 1e6:.0f} ms more"
            )
        for block in blocks:
            pool.free(block)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--drop", default="60GiB")
    parser.add_argument("--save", default="16GiB")
    parser.add_argument("--cycles", type=int, default=500)
    given = parser.parse_args()
    save, drop = gpupool.parse_size(given.save), gpupool.parse_size(given.drop)
    rates = plain_copies(given.device, save)
    print(f"plain copies: {rates[0]:.1f} GiB/s to the host, {rates[1]:.1f} GiB/s from it")
    measure_drop(given.device, drop)
    measure_save(given.device, save, given.cycles, rates)
    measure_first_block(given.device, save)


if __name__ == "__main__":
    main()
