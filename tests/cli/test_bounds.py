#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much memory the commands take for large recordings and for files that are made to take much. GPUPOOL_COMMAND is
the command."""

import gzip
import os
import struct
import subprocess
import sys
import unittest

import test_watch
from command import COMMAND, CommandTest, run

MIB = 1 << 20
PACKED = 3  # flags: ended and packed


def number(value):
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def named(kind, which, text):
    return bytes([kind]) + bytes(4) + number(which) + number(len(text)) + text


def recording_of(events):
    """A recording of one thread, as docs/watch.md has it, packed by gzip."""
    header = bytearray(4096)
    struct.pack_into("<8sIIIII", header, 0, b"GPUPOOL\1", 1, 4096, 64 << 20, PACKED, 1)
    struct.pack_into("<Q", header, 32, 10**9)
    chunk = struct.pack("<4sIQII16s", b"GPCH", 1, 0, len(events), 0, b"main")
    return gzip.compress(bytes(header) + chunk + events, 6)


class Written:
    """Events of one pool and stream, as they are in a recording. Addresses are in units of 512."""

    def __init__(self, stacks):
        self.events = bytearray(named(11, 1, b"sim:0\nsimulated\n85899345920\n0"))
        for i, text in enumerate(stacks):
            self.events += named(10, i + 1, text)
        self.address = 0

    def malloc(self, gap, address, size, stack):
        self.events += b"\x41" + number(gap) + b"\x01\x00\x00" + number(stack) + self.step_to(address) + number(size)

    def free(self, gap, address):
        self.events += b"\xb2" + number(gap) + self.step_to(address)

    def mark(self, gap):
        self.events += b"\xb7" + number(gap) + b"\x00" + number(4) + b"mark"

    def step_to(self, address):
        step, self.address = address - self.address, address
        return number(step * 2 if step >= 0 else -step * 2 - 1)


def requests(sites, marks):
    """A program of so many call sites: a request is a malloc, a free and a mark."""
    made = bytearray(named(11, 1, b"sim:0\nsimulated\n85899345920\n0"))
    for site in range(sites):
        made += named(10, site + 1, b"handler_%d (app.py:%d)\nserve (app.py:7)" % (site, site))
    time = number(700)
    again = 0x10 | 0x20 | 0x80  # the same stream, tag and pool
    for mark in range(marks):
        made += bytes([0x41 | again]) + time if mark else b"\x41" + time + b"\x01\x00\x00"
        made += number(mark * 7 % sites + 1) + number(0 if mark else 2 << 10) + number(1 << 20)
        made += bytes([0x02 | again]) + time + b"\x00"
        made += bytes([0x07 | again]) + time + b"\x00" + number(12) + b"request %4d" % (mark % 10000)
    return bytes(made)


class Bounds(CommandTest):
    def peak_of(self, *words):
        """Exit status, what was said, and the most memory in bytes, which is no less than this process has had."""
        with subprocess.Popen([COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            said = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, said, used.ru_maxrss * 1024

    def test_many_marks_and_sites(self):
        path = self.write("many.gpt", recording_of(requests(300, 300_000)))
        for words in (["leaks", path], ["report", path, "--no-fit", "-o", self.folder / "r.html"],
                      ["report", path, "-o", self.folder / "s.html"],
                      ["report", path, path, "-o", self.folder / "d.html"], ["report", path, path, "--json"],
                      ["advise", path],
                      ["export", path, "--format", "chrome"],
                      ["export", path, "--format", "chrome", "-o", self.folder / "c.json"]):
            with self.subTest(words):
                status, said, used = self.peak_of(*words)
                self.assertEqual(status, 0, said)
                self.assertLessEqual(used, 150 * MIB)

    def test_what_the_command_packs_it_reads(self):
        """Long marks that are all the same would be packed to a hundredth."""
        program = test_watch.PROLOGUE + "malloc(1000)\nfor _ in range(100_000): mark('x' * 250)\n"
        path, plain = self.folder / "marks.gpt", self.folder / "plain.gpt"
        self.assertEqual(run("record", "-o", path, "--", sys.executable, "-c", program)[0], 0)
        self.assertLess(path.stat().st_size, 3 * MIB)
        self.assertEqual(run("leaks", path)[0], 0)
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        self.assertGreater(plain.stat().st_size, 24 * MIB)
        self.assertEqual(run("salvage", plain, "-o", self.folder / "again.gpt")[0], 0)
        self.assertEqual(run("leaks", self.folder / "again.gpt")[0], 0)

    def test_many_small_lists(self):
        """Of a pickle; each takes one byte of the file."""
        for name, data in (("in each other", b"]" * 1_000_000 + b"a" * 999_999),
                           ("tuples in each other", b"(" * 1_000_000 + b"t" * 1_000_000),
                           ("side by side", b"(" + b"]" * 1_000_000 + b"l")):  # fmt: skip
            with self.subTest(name):
                status, said, used = self.peak_of("import", self.write("lists.pickle", b"\x80\x04" + data + b"."))
                self.assertEqual(status, 2, said)
                self.assertIn("it has no list device_traces", said)
                self.assertLessEqual(used, 150 * MIB)

    def test_a_small_file_that_unpacks_to_much(self):
        """Of zeroes, of events, of lines: each is refused once it has become too large for its size."""
        frees = b"\x02\x01\x01\x00\x00\x00" + b"\xb2\x01\x00" * (64 * MIB // 3 - 100)
        for name, data in (("zeroes", gzip.compress(bytes(256 * MIB), 1)), ("events", recording_of(frees))):
            path = self.write(f"{name}.gpt", data)
            self.assertLess(len(data), 2 * MIB)
            for words in (["leaks", path], ["export", path], ["salvage", path, "-o", self.folder / "saved.gpt"]):
                with self.subTest(name, words=words):
                    status, said, used = self.peak_of(*words)
                    self.assertEqual(status, 2, said)
                    self.assertRegex(said, r"at byte \d+: up to here the file unpacks to more than 32 times its size")
                    self.assertLessEqual(used, 150 * MIB)


if __name__ == "__main__":
    unittest.main()
