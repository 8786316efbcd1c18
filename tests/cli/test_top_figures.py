#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of gpupool top for a process that does what each of them counts, and what looking at many costs. Uses
GPUPOOL_COMMAND and GPUPOOL_LIBRARY."""

import os
import subprocess
import sys
import time
import unittest

from test_top_soak import Reader
from top_target import GIB, MIB, TopTest

# Does what it is told, line by line.
OBEYS = """
pool = default_pool()
def give(block):
    assert lib.gpupool_free(pool, block, 0) == 0
def burst(times):
    for _ in range(times):
        give(take(pool, 256 << 20))
        lib.gpupool_empty(pool, None)
def fail(times):
    block = u64()
    for _ in range(times):
        assert lib.gpupool_malloc(pool, 1 << 40, 0, ctypes.byref(block)) != 0
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    lib.gpupool_set_name(pool, b"told")  # the page has all figures now
    print("done", flush=True)
"""
A_HUNDRED = """
for _ in range(100):
    if os.fork() == 0:
        pool = default_pool()
        lib.gpupool_set_name(pool, os.environ["POOL_NAME"].encode())
        take(pool, 1 << 20)
        os.read(0, 1)
        os._exit(0)
stay()
"""


class Figures(TopTest):
    def setUp(self):
        super().setUp()
        self.process = self.start_pool(OBEYS)

    def tell(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.readline(), "done\n")
        (pool,) = self.seen(self.process)["pools"]
        return pool

    def cell(self, title, lines):
        """Of a table with one row; titles and numbers end in the same column."""
        end = lines[0].index(title) + len(title)
        return lines[1][:end].split()[-1]

    def shown(self, title):
        return self.cell(title, self.table(self.process)[1:])

    def test_fragmentation(self):
        self.tell("blocks = [take(pool, 32 << 20) for _ in range(32)]")
        self.assertEqual(self.shown("FRAG"), "-")  # nothing is free
        # What threads keep for themselves is free too, as the range that it is once a malloc needs one.
        self.tell("for block in blocks[:4]: give(block)")
        kept = self.tell("pass")
        self.assertEqual((kept["free_range_bytes"], kept["largest_free_range_bytes"]), (128 * MIB, 128 * MIB))
        whole = self.tell("take(pool, 3 << 20)")
        self.assertEqual((whole["free_range_bytes"], whole["largest_free_range_bytes"]), (125 * MIB, 125 * MIB))
        self.assertEqual(self.shown("FRAG"), "-")
        # Three more ranges, with live blocks between them: the next 3 MiB are from one of these.
        self.tell("for at in (6, 8, 10): give(blocks[at])")
        torn = self.tell("take(pool, 3 << 20)")
        self.assertEqual((torn["free_range_bytes"], torn["largest_free_range_bytes"]), (218 * MIB, 125 * MIB))
        self.assertEqual((torn["cached_bytes"], torn["live_bytes"]), (218 * MIB, GIB - 218 * MIB))
        self.assertEqual(self.shown("FRAG"), f"{100 * (218 - 125) / 218:.0f}%")

    def test_mallocs_that_failed(self):
        self.assertEqual(self.tell("give(take(pool, 4096))")["failed_mallocs"], 0)
        pool = self.tell("fail(3)")
        self.assertEqual(pool["failed_mallocs"], 3)
        self.assertGreaterEqual(pool["retries"], 3)
        code, text, _ = self.run_top("--prometheus", "--pid", str(self.process.pid))
        self.assertEqual(code, 0)
        (line,) = [line for line in text.splitlines() if line.startswith("gpupool_") and 'result="failed"' in line]
        self.assertEqual(line.rsplit(" ", 1)[1], "3")

    def test_driver_time_and_misses_in_a_second(self):
        before = self.tell("burst(1)")
        top = self.start_top("--pid", str(self.process.pid), "-i", "1", stdout=subprocess.PIPE)
        first = [top.stdout.readline() for _ in range(3)]
        begun = time.monotonic()
        after = self.tell("burst(40)")
        second = [top.stdout.readline() for _ in range(4)][2:]
        took = time.monotonic() - begun
        spent, misses = after["driver_seconds"] - before["driver_seconds"], after["misses"] - before["misses"]
        self.assertGreaterEqual(after["driver_calls"] - before["driver_calls"], 40 * 3)
        self.assertGreaterEqual(misses, 40)
        # Before the burst, its sums.
        self.assertEqual(self.cell("MISSES", first[1:]), f"{before['misses']:,}")
        self.assertEqual(self.cell("DRIVER", first[1:]), f"{1e6 * before['driver_seconds']:.0f}us")
        told = self.cell("DRIVER/S", second)
        self.assertTrue(told.endswith("ms"), told)
        # All of the burst is between the two looks, which are a second apart, or more on a busy machine.
        for rate, count in ((float(told[:-2]) / 1e3, spent),
                            (float(self.cell("MISSES/S", second).replace(",", "")), misses)):
            self.assertLessEqual(rate, count * 1.05)
            self.assertGreaterEqual(rate, 0.9 * count / max(took + 0.1, 1.1))


class AHundred(TopTest):
    def test_each_is_seen_and_a_look_a_second_costs_little(self):
        name = f"a hundred of {os.getpid()}"  # other tests have such processes too, meanwhile
        parent = self.start_pool(A_HUNDRED, POOL_NAME=name)

        def ours():
            return [each for each in self.objects()[1].values()
                    if any(pool["name"] == name and pool["live_bytes"] == MIB for pool in each["pools"])]

        deadline = time.monotonic() + 60
        while len(seen := ours()) < 100:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(len(seen), 100)
        self.assertTrue(all(each["pid"] == each["inner_pid"] for each in seen))
        self.assertNotIn(parent.pid, [each["pid"] for each in seen])

        looks = 4
        top = self.start_top("-i", "1", stdout=subprocess.PIPE)
        reader = Reader(top.pid)

        def read_a_look():
            while not (line := top.stdout.readline()).startswith("gpupool top"):
                self.assertTrue(line)

        def nanoseconds():
            return int((reader.proc / "schedstat").read_text(encoding="ascii").split()[0])

        read_a_look()
        begun, before = time.monotonic(), nanoseconds()
        for _ in range(looks):
            read_a_look()
        used, took = nanoseconds() - before, time.monotonic() - begun
        print(f"{looks} looks at 100 processes, one a second: {used / looks / 1e6:.1f} ms of processor each, "
              f"{100 * used / 1e9 / took:.2f} % of one", file=sys.stderr)
        self.assertGreater(took, looks * 0.8)
        self.assertLessEqual(used / 1e9 / took, 0.02)


if __name__ == "__main__":
    unittest.main()
