#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings on a disk without room: each event is in the file, or counted as lost. The system's limit of a file's size
stands for the disk. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import collections
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

import test_watch

PROLOGUE = test_watch.PROLOGUE + """
import resource, signal
def let_grow_to(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
# 128 MiB, enough for eight threads and what a pool may create so that they need not drain each other: a chunk that it
# maps later is an event too, and the simulated device has files of its own.
blocks = [malloc(512 * (1 + i % 90)) for i in range(5760)]
for block in blocks: free(block)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
let_grow_to(1 << 20)
"""
WARM = 2 * 5760
# strace makes system calls fail; where nobody may trace, that is not shown.
STRACE = shutil.which("strace")


class Events:
    """How many events of each kind a recording has, read as docs/watch.md describes the format."""

    MALLOC, FREE, MARK, TAG_NAME, POOL_NAME = 1, 2, 7, 9, 11
    ADDS_ADDRESS, ADDS_BYTES, ADDS_TEXT = {2, 3}, {1, 4, 5, 6, 8}, {7, 9, 10, 11}

    def __init__(self, path):
        data = path.read_bytes()
        header, size = struct.unpack_from("<2I", data, 12)
        self.begun, self.lost = struct.unpack_from("<2Q", data, 72)
        self.count = collections.Counter()
        self.names = []  # (kind, number)
        for chunk in range(header, len(data), size):
            self.data, self.at, self.end = data, chunk + 40, min(chunk + size, len(data))
            while data[chunk : chunk + 4] == b"GPCH" and self.at < self.end and data[self.at] != 0:
                self.read_event()

    def read_number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def read_event(self):
        token = self.data[self.at]
        self.at += 1
        kind = token & 0x0F
        changed = sum(token & same == 0 for same in (0x80, 0x10, 0x20))  # pool, stream and tag
        fields = [self.read_number()
                  for _ in range(1 + changed + (token & 0x40 != 0) + (1 if kind in self.ADDS_ADDRESS else 2))]
        if kind in self.ADDS_TEXT:
            self.at += fields[-1]
        if kind in (self.TAG_NAME, self.POOL_NAME):
            self.names.append((kind, fields[-2]))
        self.count[kind] += 1

    def calls(self):
        return self.count[self.MALLOC] + self.count[self.FREE]


class FullDisk(test_watch.Case):
    def record_on_full_disk(self, program, *tracer):
        self.path = self.folder / "full.gpt"
        subprocess.run([*tracer, sys.executable, "-c", PROLOGUE + program], check=True,
                       env=os.environ | {"GPUPOOL_RECORD": str(self.path)})
        return Events(self.path)

    def test_costs_events_and_says_so(self):
        events = self.record_on_full_disk("for i in range(300000): free(malloc(512 * (1 + i % 90)))")
        self.assertGreater(events.lost, 1000)
        self.assertGreater(events.calls(), 50000)
        self.assertEqual(events.calls() + events.lost, WARM + 2 * 300000)
        status, text, said = test_watch.run("export", self.path)
        self.assertEqual(status, 0, said)
        self.assertIn(f"# {events.lost} events were lost\n", text)
        self.assertEqual(sum(line[0] in "af" for line in text.splitlines()), events.calls())
        told = f"{events.lost:,} events were lost, as the disk was full: what was freed in them seems live"
        self.assertIn(f"Note: {told}", test_watch.run("leaks", self.path)[1])
        self.assertIn(told, test_watch.run("leaks", self.path, "--json")[2])
        report = json.loads(test_watch.run("report", self.path, "--json")[1])
        self.assertEqual((report["lost_events"], report["is_cut"]), (events.lost, False))

    def test_without_room_for_one_event_fails(self):
        program = """
import os, resource, signal
os.environ["GPUPOOL_SIM"] = "data=0"  # files of its own
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
""" + test_watch.PROLOGUE
        path = self.folder / "none.gpt"
        status, _, said = test_watch.run("record", "-o", path, "--", sys.executable, "-c", program + "malloc(512)")
        self.assertEqual(status, 1)
        self.assertRegex(said, "0 events of process .* more events were lost, as the disk was full")

    def test_of_many_threads_each_event_is_there_or_lost(self):
        events = self.record_on_full_disk("""
def work(seed):
    for i in range(40000):
        free(malloc(512 * (1 + i * seed % 90)))
        if i % 100 == 0: mark("hundred")
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 9)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
        self.assertGreater(events.lost, 1000)
        found, made = events.calls() + events.count[Events.MARK] + events.lost, WARM + 8 * (2 * 40000 + 400)
        self.assertIn(found - made, range(9))  # a chunk that the threads together need is an event too, and may be lost

    def test_recording_goes_on_once_there_is_room(self):
        """Not behind a gap as long as what was lost, which would take the room again."""
        events = self.record_on_full_disk("""
for i in range(300000): free(malloc(512 * (1 + i % 90)))
let_grow_to(resource.RLIM_INFINITY)
for i in range(1000): free(malloc(512 * (1 + i % 90))); mark("after")
""")
        self.assertGreater(events.lost, 1000)
        self.assertEqual(events.count[Events.MARK], 1000)
        self.assertEqual(events.calls() + events.lost, WARM + 2 * 301000)
        self.assertEqual(self.path.stat().st_size, 4096 + 65536 * events.begun)
        self.assertLess(self.path.stat().st_size, 2 << 20)

    def test_names_that_found_no_room_come_once_there_is_some(self):
        """A tag, and a pool, that are first used while the disk is full."""
        events = self.record_on_full_disk("""
for i in range(300000): free(malloc(512 * (1 + i % 90)))
push("late")
lib.gpupool_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
first, pool = pool, ctypes.c_void_p()
check(lib.gpupool_create(None, ctypes.byref(pool)))
for i in range(1000): free(malloc(512 * (1 + i % 90)))
let_grow_to(resource.RLIM_INFINITY)
for i in range(1000): free(malloc(512 * (1 + i % 90)))
malloc(4096)
""")
        self.assertGreater(events.lost, 1000)
        self.assertEqual(sorted(events.names), [(Events.TAG_NAME, 1), (Events.POOL_NAME, 1), (Events.POOL_NAME, 2)])
        status, text, said = test_watch.run("leaks", self.path)
        self.assertEqual(status, 0, said)
        self.assertIn("late", text)

    def test_a_signal_costs_no_event(self):
        """It may interrupt the call that takes room."""
        tracer = [STRACE, "-f", "-qq", "-o", "/dev/null", "-e", "inject=fallocate:error=EINTR:when=2+2"]
        if STRACE is None or subprocess.run([*tracer, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no strace is here, or it may not trace")
        events = self.record_on_full_disk("""
let_grow_to(resource.RLIM_INFINITY)
for i in range(200000): free(malloc(512 * (1 + i % 90)))
""", *tracer)
        self.assertEqual((events.lost, events.calls()), (0, WARM + 2 * 200000))


if __name__ == "__main__":
    unittest.main()
