#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpupool salvage saves of recordings that were cut or damaged. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY
the library."""

import gzip
import os
import random
import re
import struct
import subprocess
import sys
import unittest
import zlib

import test_watch

run = test_watch.run
PROGRAM = """
def work(seed):
    live = []
    for i in range(150):
        push(f"tag {i % 7}")
        live.append(malloc(512 * (1 + i * seed % 40)))
        pop()
        if i % 3: free(live.pop(0))
        if i % 10 == 0: mark(f"step {i}")
    for block in live: free(block)
threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3)]
for thread in threads: thread.start(); thread.join()
"""
HEADER, CHUNK_HEADER, CHUNK = 4096, 40, 1 << 16
# Numbers behind the time and what the token says that follows.
ADDED = {1: 2, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 8: 2}


def events_in(data, is_packed):
    """How many events are whole in the first bytes of a recording, read by the words of docs/watch.md."""
    count, at = 0, HEADER

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at + CHUNK_HEADER <= len(data):
        begin = at
        (used,) = struct.unpack_from("<I", data, begin + 16)
        at += CHUNK_HEADER
        end = at + used if is_packed else begin + CHUNK
        while at < min(end, len(data)) and data[at] != 0:
            try:
                token = data[at]
                at += 1
                for bit in (None, 0x80, 0x10, 0x20):
                    if bit is None or not token & bit:
                        number()
                if token & 0x40:
                    number()
                kind = token & 0x0F
                if kind in ADDED:
                    for _ in range(ADDED[kind]):
                        number()
                else:
                    number()
                    length = number()
                    at += length
                    if at > len(data):
                        return count
                count += kind <= 8
            except IndexError:
                return count
        at = end
    return count


def unpacked(packed):
    """As far as it goes."""
    stream, text = zlib.decompressobj(31), b""
    for at in range(len(packed)):
        try:
            text += stream.decompress(packed[at:at + 1])
        except zlib.error:
            break
    return text


class Salvage(test_watch.Case):
    def setUp(self):
        super().setUp()
        self.packed = self.record(PROGRAM, "--stacks", "none").read_bytes()
        self.whole = gzip.decompress(self.packed)
        self.all = events_in(self.whole, True)
        self.assertGreater(self.all, 900)
        self.number = 0

    def salvage(self, data):
        """Status, events saved and what was said; the salvaged file is whole."""
        path, saved = self.folder / "damaged.gpt", self.folder / "saved.gpt"
        path.write_bytes(data)
        saved.unlink(missing_ok=True)
        status, _, said = run("salvage", path, "-o", saved)
        if status != 0:
            self.assertFalse(saved.exists())
            return status, 0, said
        count = int(re.match(r"gpupool: (\d+) events of process ", said).group(1))
        self.assertEqual(count, events_in(gzip.decompress(saved.read_bytes()), True))
        return status, count, said

    def test_a_whole_one_loses_nothing(self):
        for data in (self.packed, self.whole):
            self.assertEqual(self.salvage(data)[:2], (0, self.all))

    def test_every_prefix_of_a_packed_one(self):
        stream, text = zlib.decompressobj(31), b""
        step = int(os.environ.get("GPUPOOL_TEST_PREFIX_STEP", "3"))
        for length in range(len(self.packed)):
            if length % step == 0 or len(self.packed) - length < 30:
                status, count, said = self.salvage(self.packed[:length])
                expected = events_in(text, True) if len(text) >= HEADER else 0
                if len(text) >= HEADER:
                    self.assertEqual((status, count), (0, expected), (length, said))
                    self.assertRegex(said, r"damaged and was cut.*at byte \d+: the gzip data is cut here")
                else:
                    self.assertEqual(status, 2, (length, said))
            text += stream.decompress(self.packed[length:length + 1])

    def test_every_flip_of_a_packed_one(self):
        pick = random.Random(11)
        saved = 0
        for _ in range(int(os.environ.get("GPUPOOL_TEST_FLIPS", "1000"))):
            at = pick.randrange(len(self.packed))
            data = bytearray(self.packed)
            data[at] ^= 1 << pick.randrange(8)
            before = unpacked(self.packed[:at])
            status, count, said = self.salvage(bytes(data))
            self.assertIn(status, (0, 2), said)
            if len(before) > HEADER:
                self.assertEqual(status, 0, (at, said))
                self.assertGreaterEqual(count, events_in(before, True), (at, said))
                saved += 1
        self.assertGreater(saved, 0)

    def test_a_broken_chunk_costs_only_itself(self):
        starts = [found.start() for found in re.finditer(b"GPCH", self.whole)]
        self.assertGreaterEqual(len(starts), 3)
        data = bytearray(self.whole)
        data[starts[1] + CHUNK_HEADER] = 0x0F  # an event of unknown kind
        for form in (bytes(data), gzip.compress(bytes(data))):
            status, count, said = self.salvage(form)
            (used,) = struct.unpack_from("<I", self.whole, starts[1] + 16)
            end = starts[1] + CHUNK_HEADER + used
            lost = events_in(self.whole[:end], True) - events_in(self.whole[:starts[1]], True)
            self.assertEqual((status, count), (0, self.all - lost))
            self.assertIn("1 part is damaged and was cut: ", said)
            self.assertIn(f"at byte {starts[1] + CHUNK_HEADER}: an event of unknown kind 15", said)

    def test_a_plain_one_that_was_cut(self):
        path = self.folder / "plain.gpt"
        program = test_watch.PROLOGUE + PROGRAM
        subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"GPUPOOL_RECORD": str(path)})
        whole = path.read_bytes()
        pick = random.Random(12)
        for length in [HEADER, HEADER + 20, *(pick.randrange(HEADER, len(whole)) for _ in range(60))]:
            status, count, said = self.salvage(whole[:length])
            self.assertEqual((status, count), (0, events_in(whole[:length], False)), (length, said))

    def test_other_commands_say_what_helps(self):
        path = self.folder / "cut.gpt"
        path.write_bytes(self.packed[:len(self.packed) * 9 // 10])
        status, out, said = run("leaks", path)
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(said, r"cut\.gpt: at byte \d+: the gzip data is cut here: "
                               r"'gpupool salvage' saves what is before")


if __name__ == "__main__":
    unittest.main()
