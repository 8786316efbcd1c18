#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has the command read files that are broken, cut, or too large. GPUPOOL_COMMAND is its path."""

import gzip
import json
import os
import pathlib
import pickle
import re
import resource
import struct
import subprocess
import unittest

from command import COMMAND, MIB, CommandTest, Workload, run


class BrokenTraces(CommandTest):
    def assert_refused(self, content, pattern, name="bad.trace"):
        path = self.write(name, content)
        for arguments in (["replay", "--device", "sim", path], ["replay", "--device", "sim", "--json", path]):
            code, out, err = run(*arguments)
            self.assertEqual(code, 2, err)
            self.assertEqual(out, "")
            self.assertRegex(err, "^gpupool: " + re.escape(str(path)) + pattern + "\n$")

    def test_each_way(self):
        good = "# comment\na 1 512 0\n"
        for line, pattern in (
            ("b 1 512 0", ":3: unknown kind of line 'b'.*"),
            ("alloc 1 512 0", ":3: unknown kind of line 'alloc'.*"),
            ("a 2 512", ":3: the stream number is missing.*"),
            ("a", ":3: the block ID is missing.*"),
            ("f", ":3: the block ID is missing.*"),
            ("a x 512 0", ":3: the block ID is not a number: 'x'"),
            ("a 2 1e3 0", ":3: the size in bytes is not a number: '1e3'"),
            ("a 2 -5 0", ":3: the size in bytes is not a number: '-5'"),
            ("a 2 512 0 0", ":3: there is more than there should be: '0'"),
            ("f 1 1", ":3: there is more than there should be: '1'"),
            ("a 2 18446744073709551616 0", ":3: the size in bytes does not fit in 64 bits.*"),
            ("a 2 18446744073709551615 0", ":3: block 2 .* more bytes live than 64 bits can count"),
            ("a 1 512 0", ":3: block 1 is allocated again before it is freed"),
            ("f 2", ":3: block 2 is freed and is not live"),
            ("f 1\nf 1", ":4: block 1 is freed and is not live"),
        ):
            with self.subTest(line=line):
                self.assert_refused(good + line + "\n", pattern)
                self.assert_refused(gzip.compress((good + line + "\n").encode()), pattern, "bad.trace.gz")

    def test_nothing_in_it(self):
        self.assert_refused("", ": at byte 0: the file is empty")
        self.assert_refused(gzip.compress(b""), ": at byte 0: the file is empty")
        self.assert_refused("# only words\n", ":1: the trace ends and nothing was allocated")

    def test_cut_or_damaged_gzip(self):
        packed = gzip.compress(Workload().text.encode())
        self.assert_refused(packed[: len(packed) // 2], r":\d+: the gzip data is cut here")
        self.assert_refused(packed[:-1], r":\d+: the gzip data is cut here")
        damaged = bytearray(packed)
        damaged[-6] ^= 0xFF
        self.assert_refused(bytes(damaged), r":\d+: the gzip data is damaged here: .+")

    def test_gzip_that_unpacks_to_very_much(self):
        """A megabyte that unpacks to a gigabyte is refused, and costs the memory of neither."""
        zeroes = gzip.compress(bytes(1 << 24), compresslevel=9) * 64
        no_lines = gzip.compress(b"\n" * (1 << 20), compresslevel=9) * 65
        for content, words in (
            (zeroes, "1: the line is longer than 4096 characters"),
            (no_lines, "67108865: a trace has at most 67108864 lines"),
        ):
            path = self.write("bomb.trace.gz", content)
            with subprocess.Popen(
                [COMMAND, "replay", "--device", "sim", path], stderr=subprocess.PIPE, text=True
            ) as command:
                err = command.stderr.read()
                _, status, usage = os.wait4(command.pid, 0)
                command.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual((command.returncode, err), (2, f"gpupool: {path}:{words}\n"))
            self.assertLess(usage.ru_maxrss * 1024, 256 * MIB)

    def run_within(self, most, *words):
        """Runs the command with at most so many bytes of addresses."""
        if b"__asan_init" in pathlib.Path(COMMAND).read_bytes():
            self.skipTest("the address sanitizer needs all addresses")
        return run(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))

    def test_a_trace_that_does_not_fit_in_memory(self):
        path = self.write("bomb.trace.gz", gzip.compress(b"a 1 512 0\nf 1\n" * (1 << 18), compresslevel=9) * 32)
        code, out, err = self.run_within(256 * MIB, "replay", "--device", "sim", path)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, rf"^gpupool: {path}:\d+: the trace does not fit in this machine's memory\n$")

    def test_a_recording_that_does_not_fit_in_memory(self):
        # 2^24 mallocs of 1 byte, each behind the one before it, in one chunk.
        piece = b"\xb1\0\2\1" * (1 << 20)
        header = b"GPUPOOL\1" + struct.pack("<4IIIQ", 1, 4096, 1 << 30, 3, 1, 0, 10**9)
        chunk = struct.pack("<4sIQI", b"GPCH", 1, 0, 16 * len(piece)).ljust(40, b"\0")
        path = self.write("bomb.gpt", header.ljust(4096, b"\0") + chunk + piece * 16)
        for words in (["leaks", path], ["salvage", path, "-o", self.folder / "made.gpt"]):
            code, out, err = self.run_within(256 * MIB, *words)
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(err, f"gpupool: {path}: the recording does not fit in this machine's memory\n")

    def test_a_pickle_that_does_not_fit_in_memory(self):
        path = self.write("lists.pickle", b"\x80\4" + b"]" * (32 << 20))
        code, out, err = self.run_within(256 * MIB, "import", path)
        self.assertEqual((code, out, err), (1, "", "gpupool: this machine's memory is not enough\n"))

    def test_no_message_is_long(self):
        """However long a number is, or a list of what there is to choose from."""
        trace = self.write("t.trace", "a " + "9" * 4000 + " 1 1\n")
        mallocs = b"".join(b"\x31\0" + bytes([pool]) + b"\2\1" for pool in range(1, 100))
        header = b"GPUPOOL\1" + struct.pack("<4IIIQ", 1, 4096, 1 << 20, 3, 1, 0, 10**9)
        chunk = struct.pack("<4sIQI", b"GPCH", 1, 0, len(mallocs)).ljust(40, b"\0")
        pools = self.write("pools.gpt", header.ljust(4096, b"\0") + chunk + mallocs)
        traces = [[{"action": "alloc", "addr": 512, "size": 512}] for _ in range(100)]
        devices = self.write("devices.pickle", pickle.dumps({"device_traces": traces}))
        for words in (["replay", "--device", "sim", trace], ["export", pools], ["import", devices]):
            code, out, err = run(*words)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1))
            self.assertLessEqual(len(err.replace(str(self.folder), "")), 160)

    def test_standard_input(self):
        workload = Workload(events=200)
        for content in (workload.text.encode(), gzip.compress(workload.text.encode())):
            done = subprocess.run(
                [COMMAND, "replay", "--device", "sim", "--json", "-"], input=content, capture_output=True, check=False
            )
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            row = json.loads(done.stdout)
            self.assertEqual((row["trace"], row["file"], row["events"]), ("stdin", "-", workload.events))
        for content, words in (
            (b"", ": at byte 0: the file is empty"),
            (b"a 1\n", ":1: the size in bytes is missing in 'a 1'"),
        ):
            done = subprocess.run([COMMAND, "replay", "-"], input=content, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr.decode()), (2, f"gpupool: standard input{words}\n"))

    def test_a_recording_is_no_trace(self):
        recording = self.write("bad.trace", b"GPUPOOL\1" + bytes(10_000)).read_bytes()
        self.assert_refused(recording, r": at byte 0: this is a recording of gpupool: 'gpupool export' makes .* of it")
        self.assert_refused(recording[:8], r": at byte 0: this is a recording of gpupool: .*")
        self.assert_refused(gzip.compress(recording), r": at byte 0: this is a recording of gpupool: .*")
        code, out, err = run("import", self.write("bad.log", recording))
        self.assertEqual((code, out), (2, ""))
        self.assertIn("this is a recording of gpupool: 'gpupool export' makes a trace of it", err)

    def test_not_a_trace_at_all(self):
        self.assert_refused(bytes(range(256)) * 4, r":\d+: .+")

    def test_cut_text_is_mentioned(self):
        path = self.write("cut.trace", "a 1 512 0\nf 1")
        code, _, err = run("replay", "--device", "sim", path)
        self.assertEqual(code, 0)
        self.assertIn("may have been cut", err)

    def test_files_that_cannot_be_read(self):
        for path in (self.folder / "missing.trace", self.folder):
            code, out, err = run("replay", "--device", "sim", path)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(str(path), err)

    def test_all_traces_are_read_before_the_first_is_played(self):
        good = self.write("good.trace", "a 1 512 0\nf 1\n")
        bad = self.write("bad.trace", "a 1 512 0\nf 2\n")
        code, out, err = run("replay", "--device", "sim", "--json", good, bad)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("bad.trace:2:", err)


if __name__ == "__main__":
    unittest.main()
