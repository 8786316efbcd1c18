#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpupool salvage saves of recordings that were cut or damaged. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY
the library, SALVAGER salvager.cpp."""

import gzip
import json
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
LONG_MARK = "mark(random.Random(i * seed).randbytes(100).hex())"
HEADER, CHUNK_HEADER, CHUNK = 4096, 40, 1 << 16
FLAGS, CUT = 20, 8  # where the flags are, and the one that says that parts were left out
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


def chunks_in(data):
    """Chunks of an unpacked recording: thread, ticks and name, and the events; the copy of the header is none."""
    found, at = [], HEADER
    while at < len(data):
        (used,) = struct.unpack_from("<I", data, at + 16)
        head, events = data[at:at + CHUNK_HEADER], data[at + CHUNK_HEADER:at + CHUNK_HEADER + used]
        if not events.startswith(b"\0"):
            found.append((head[:16] + head[24:], events))
        at += CHUNK_HEADER + used
    return found


def members_in(packed):
    """Of each member of a gzip file: where it begins and ends, and what it unpacks to."""
    found, at = [], 0
    while at < len(packed):
        stream = zlib.decompressobj(31)
        text = stream.decompress(packed[at:])
        end = len(packed) - len(stream.unused_data)
        found.append((at, end, text))
        at = end
    return found


def unpacked(packed):
    """As far as it goes, byte by byte where it ends."""
    stream, text = zlib.decompressobj(31), b""
    at, step = 0, 256
    while at < len(packed):
        begin = stream.copy()
        try:
            text += stream.decompress(packed[at:at + step])
        except zlib.error:
            if step == 1:
                break
            stream, step = begin, 1
            continue
        at = min(at + step, len(packed)) - len(stream.unused_data)
        if stream.eof:
            stream = zlib.decompressobj(31)
    return text


class Case(test_watch.Case):
    def setUp(self):
        super().setUp()
        self.path, self.saved = self.folder / "damaged.gpt", self.folder / "saved.gpt"
        self.salvager = subprocess.Popen([os.environ["SALVAGER"]], stdin=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(self.salvager.communicate)

    def save(self, data):
        """Status and words of gpupool salvage, whose output is in self.saved."""
        self.path.write_bytes(data)
        self.saved.unlink(missing_ok=True)
        self.salvager.stdin.write(f"{self.path}\n{self.saved}\n")
        self.salvager.stdin.flush()
        said = []
        while not (line := self.salvager.stderr.readline()).startswith("status "):
            self.assertNotEqual(line, "", "the salvager has ended")
            said.append(line)
        return int(line.split()[1]), "".join(said)


class Salvage(Case):
    def setUp(self):
        super().setUp()
        self.packed = self.record(PROGRAM, "--stacks", "none").read_bytes()
        self.whole = gzip.decompress(self.packed)
        self.all = events_in(self.whole, True)
        self.assertGreater(self.all, 900)
        self.number = 0

    def salvage(self, data):
        """Status, events saved and what was said; the salvaged file is whole."""
        status, said = self.save(data)
        if status != 0:
            self.assertFalse(self.saved.exists())
            return status, 0, said
        count = int(re.match(r"gpupool: (\d+) events of process ", said).group(1))
        self.assertEqual(count, events_in(gzip.decompress(self.saved.read_bytes()), True))
        return status, count, said

    def test_a_whole_one_loses_nothing(self):
        for data in (self.packed, self.whole):
            status, count, said = self.salvage(data)
            self.assertEqual((status, count), (0, self.all))
            saved = self.saved.read_bytes()
            self.saved.unlink()
            self.assertEqual(run("salvage", self.path, "-o", self.saved), (0, "", said))
            self.assertEqual(self.saved.read_bytes(), saved)

    def test_a_program_that_is_called_as_a_recording_begins(self):
        """Its name is in the header, and in the copy of that at the end."""
        whole = self.whole.replace(b"import ", b"GPUPOOL\x01", 2)
        self.assertIn(b"GPUPOOL\x01", whole[120:HEADER])
        status, count, said = self.salvage(whole)
        self.assertEqual((status, count), (0, self.all), said)
        status, _, said = run("export", self.folder / "saved.gpt")
        self.assertEqual(status, 0, said)

    def test_every_prefix_of_a_packed_one(self):
        stream, text = zlib.decompressobj(31), b""
        step = int(os.environ.get("GPUPOOL_TEST_PREFIX_STEP", "3"))
        for length in range(len(self.packed)):
            if length % step == 0 or len(self.packed) - length < 30:
                status, count, said = self.salvage(self.packed[:length])
                expected = events_in(text, True) if len(text) >= HEADER else 0
                if len(text) >= HEADER:
                    self.assertEqual((status, count), (0, expected), (length, said))
                    if not stream.eof:
                        self.assertRegex(said, r"damaged and was cut.*at byte \d+: the gzip data is cut here")
                else:
                    self.assertEqual(status, 2, (length, said))
            if stream.eof:
                stream = zlib.decompressobj(31)
            text += stream.decompress(self.packed[length:length + 1])

    def test_every_flip_of_one_member(self):
        """As gzip itself packs: all events before the damage."""
        packed = gzip.compress(self.whole)
        pick = random.Random(11)
        saved = 0
        for _ in range(int(os.environ.get("GPUPOOL_TEST_FLIPS", "1000")) // 4):
            at = pick.randrange(len(packed))
            data = bytearray(packed)
            data[at] ^= 1 << pick.randrange(8)
            before = unpacked(packed[:at])
            status, count, said = self.salvage(bytes(data))
            self.assertIn(status, (0, 2), said)
            if len(before) > HEADER:
                self.assertEqual(status, 0, (at, said))
                self.assertGreaterEqual(count, events_in(before, True), (at, said))
                saved += 1
        self.assertGreater(saved, 0)

    def test_an_end_that_was_never_written(self):
        """A crash of the system leaves zeroes there, which gzip takes for more and more data."""
        packed = gzip.compress(self.whole)
        pick = random.Random(16)
        for _ in range(40):
            length = pick.randrange(len(packed) // 4, len(packed) - 20)
            status, count, said = self.salvage(packed[:length].rstrip(b"\0") + bytes(1 << 20))
            self.assertEqual((status, count), (0, events_in(unpacked(packed[:length].rstrip(b"\0")), True)), said)

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
            self.assertIn(f"1 part is damaged and was cut, {used} bytes: ", said)
            self.assertIn(f"at byte {starts[1] + CHUNK_HEADER}: an event of unknown kind 15", said)

    def test_no_text_in_a_broken_chunk_is_taken_for_a_chunk(self):
        program = "malloc(512)\nmark('GPCH' + '\\1' * 36)\nfree(malloc(512))\n"
        whole = bytearray(gzip.decompress(self.record(program, "--stacks", "none", name="text.gpt").read_bytes()))
        whole[HEADER + CHUNK_HEADER] = 0x0F
        self.assertEqual(self.salvage(bytes(whole))[:2], (0, 0))

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
                               r"'gpupool salvage' saves what is there")


class Plain(Case):
    """A recording as the library writes it, of one thread that has filled chunks."""

    def setUp(self):
        super().setUp()
        path = self.folder / "plain.gpt"
        program = "import random\nfor i in range(2500): mark(random.Random(i).randbytes(50).hex())\n"
        subprocess.run([sys.executable, "-c", test_watch.PROLOGUE + program], check=True,
                       env=os.environ | {"GPUPOOL_RECORD": str(path)})  # fmt: skip
        self.whole = path.read_bytes()
        self.chunks = [self.whole[at:at + CHUNK] for at in range(HEADER, len(self.whole), CHUNK)]
        self.full = len(self.chunks) - 1
        self.assertGreaterEqual(self.full, 3)

    def marks(self, chunks):
        return re.findall(rb"[0-9a-f]{100}", b"".join(chunks))

    def check(self, data, why, good):
        """Any command refuses it, with these words, and what is saved is of these chunks."""
        status, said = self.save(data)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, f"damaged and w(as|ere) cut.*at byte .*{why}")
        self.assertTrue(self.marks([gzip.decompress(self.saved.read_bytes())]) == self.marks(good), said)
        status, out, said = run("leaks", self.path)
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(said, f"at byte .*{why}.*: 'gpupool salvage' saves what is there")

    def test_a_whole_one_loses_nothing(self):
        self.assertEqual(self.save(self.whole)[0], 0)
        self.assertEqual(run("leaks", self.path)[0], 0)
        self.assertTrue(self.marks([gzip.decompress(self.saved.read_bytes())]) == self.marks([self.whole]))

    def test_one_of_the_versions_before_is_whole(self):
        """Which left 8 bytes of zeroes where the checksum is."""
        data = self.whole[:HEADER] + b"".join(chunk[:16] + bytes(8) + chunk[24:] for chunk in self.chunks)
        self.assertNotIn("damaged", self.save(data)[1])
        self.assertEqual(run("leaks", self.path)[0], 0)
        self.assertTrue(self.marks([gzip.decompress(self.saved.read_bytes())]) == self.marks([self.whole]))

    def test_flips_and_zeroes_in_a_full_chunk(self):
        pick = random.Random(17)
        for number in range(60):
            hit = pick.randrange(self.full)
            # Not of how long it is and the checksum: those have their own cases.
            at = hit * CHUNK + pick.choice([pick.randrange(4, 16), pick.randrange(24, CHUNK)])
            data = bytearray(b"".join(self.chunks))
            if number % 3 == 0:
                data[at // 512 * 512 + 24:at // 512 * 512 + 512] = bytes(512 - 24)
            else:
                data[at] ^= 1 << pick.randrange(8)
            good = self.chunks[:hit] + self.chunks[hit + 1:]
            self.check(self.whole[:HEADER] + bytes(data), "the chunk is not as it was written", good)

    def test_flips_of_a_chunks_checksum(self):
        for at in range(16, 24):
            data = bytearray(self.whole)
            data[HEADER + CHUNK + at] ^= 1 << at % 8
            self.check(bytes(data), "(the chunk is not as it was written|a chunk of .* cannot be)",
                       [self.chunks[0], *self.chunks[2:]])  # fmt: skip

    def test_chunks_that_are_missing(self):
        for hit in range(len(self.chunks)):
            good = self.chunks[:hit] + self.chunks[hit + 1:]
            for gap in (b"", bytes(CHUNK)):
                data = self.whole[:HEADER] + b"".join([*self.chunks[:hit], gap, *self.chunks[hit + 1:]])
                self.check(data, "1 of its [0-9]+ chunks is missing", good)


class Members(Case):
    """A recording of many members: what is saved of a damaged one is what the others have, byte by byte, and what is
    known to be whole of the damaged ones."""

    BLOCK = 4096  # of a member has a checksum
    LONGEST = 300  # event

    def setUp(self):
        super().setUp()
        self.packed = self.new_recording("recording.gpt")
        self.whole = gzip.decompress(self.packed)
        self.members = members_in(self.packed)
        self.assertGreaterEqual(sum(b"GPCH" in text for _, _, text in self.members), 8)

    def new_recording(self, name):
        program = PROGRAM.replace("150", "80").replace('if i % 10 == 0: mark(f"step {i}")', LONG_MARK)
        program = program.replace("(1, 2, 3)", "range(1, 10)")
        return self.record("import random\n" + program, "--stacks", "none", name=name).read_bytes()

    def salvage(self, data):
        status, said = self.save(data)
        self.assertEqual(status, 0, said)
        made = gzip.decompress(self.saved.read_bytes())
        is_cut = re.search("damaged and (was|were) cut", said) is not None
        self.assertEqual(made[FLAGS] & CUT != 0, is_cut, said)
        self.assertEqual(made[:FLAGS], self.whole[:FLAGS])
        self.assertEqual(made[FLAGS] & ~CUT, self.whole[FLAGS])
        self.assertEqual(made[FLAGS + 1:HEADER], self.whole[FLAGS + 1:HEADER])
        return chunks_in(made), said

    def chunks_of(self, members):
        return chunks_in(bytes(HEADER) + b"".join(text for _, _, text in members if text.startswith(b"GPCH")))

    def assert_saved(self, data, chunks, about):
        """All events of members that are whole, and of the others those in blocks before the damage."""
        chunks = iter(chunks)
        for begin, end, text in self.members:
            kept = self.kept_of(data, begin, end, text)
            for place, (head, events) in enumerate(self.chunks_of([(begin, end, text)])):
                self.assertEqual(place, 0)  # which all members have
                if kept <= CHUNK_HEADER:
                    continue
                saved = next(chunks, None)
                self.assertTrue(saved is not None and saved[0] == head and events.startswith(saved[1]), about)
                least = len(events) if kept == len(text) else kept - CHUNK_HEADER - self.LONGEST
                self.assertGreaterEqual(len(saved[1]), least, about)
                self.assertLessEqual(len(saved[1]), kept - CHUNK_HEADER, about)
        self.assertIsNone(next(chunks, None), about)

    def kept_of(self, data, begin, end, text):
        """How many bytes of a member are whole: blocks, unless the header has damage, which says what they are."""
        if data[begin:end] == self.packed[begin:end]:
            return len(text)
        (label,) = struct.unpack_from("<H", self.packed, begin + 10)
        deflated = begin + 10 + 2 + label + 2
        if data[begin:deflated] != self.packed[begin:deflated]:
            return 0
        made = unpacked(data[begin:end])
        if made == text:
            return len(text)
        equal = next((at for at, (one, other) in enumerate(zip(made, text, strict=False)) if one != other), len(made))
        return equal // self.BLOCK * self.BLOCK

    def flip(self, at, bit):
        """Nothing is invented, and of the member with the flip what is before it is saved."""
        data = bytearray(self.packed)
        data[at] ^= 1 << bit
        begin, end, text = next(member for member in self.members if member[0] <= at < member[1])
        chunks, said = self.salvage(bytes(data))
        self.assert_saved(data, chunks, (at, bit, said))
        if "damaged" not in said:  # the bit means nothing to gzip
            self.assertEqual(zlib.decompress(data[begin:end], 31), text)
        elif text:  # of the empty last one nothing is lost
            self.assertIn(f"1 part is damaged and was cut, {end - begin} bytes: ", said)
            self.assertIn(f"at byte {begin}: ", said)

    def test_members_are_of_whole_chunks(self):
        self.assertEqual(self.chunks_of(self.members), chunks_in(self.whole))
        self.assertEqual(self.members[0][2], self.whole[:HEADER])
        self.assertTrue(all(text[:4] in (b"GPCH", b"") for _, _, text in self.members[1:]))
        self.assertEqual(self.salvage(self.packed)[0], chunks_in(self.whole))

    def test_members_that_are_not_in_their_place(self):
        """Each is whole, so that only what its header says tells."""
        ours = [self.packed[begin:end] for begin, end, _ in self.members]
        other = self.new_recording("other.gpt")
        others = [other[begin:end] for begin, end, _ in members_in(other)]
        plain = [gzip.compress(text) for _, _, text in self.members]  # as they were before they had labels
        middle = range(1, len(ours) - 2)
        of_another = "this gzip member is of another file"
        twice = "this gzip member comes twice, or belongs before others"
        for what, parts, bad, why, good in (
            ("missing", [*ours[:3], *ours[4:]], 3, "bytes that the file unpacks to are missing before this",
             [at for at in middle if at != 3]),
            ("no first", ours[1:], 0, "4096 bytes that the file unpacks to are missing before this", middle),
            ("twice", [*ours[:4], ours[2], *ours[4:]], 4, twice, middle),
            ("all twice", ours + ours, len(ours), twice, middle),
            ("exchanged", [*ours[:3], ours[4], ours[3], *ours[5:]], 3, "are missing before this",
             [at for at in middle if at != 3]),
            ("one more", [*ours[:4], others[4], *ours[4:]], 4, of_another, middle),
            ("another's", [*ours[:4], others[4], *ours[5:]], 4, of_another, [at for at in middle if at != 4]),
            ("another's behind", ours + others, len(ours), of_another, middle),
            ("without label", [*ours[:4], plain[4], *ours[5:]], 4, of_another, [at for at in middle if at != 4]),
            ("with label", [*plain[:4], ours[4], *plain[5:]], 4, of_another, [at for at in middle if at != 4]),
            ("no first without label", plain[1:], 0, "the header of the recording is missing", middle),
        ):  # fmt: skip
            with self.subTest(what):
                chunks, said = self.salvage(b"".join(parts))
                place = f"damaged.gpt: at byte {sum(map(len, parts[:bad]))}: "
                self.assertTrue(chunks == self.chunks_of([self.members[at] for at in good]), said)
                self.assertRegex(said, f"damaged and w(as|ere) cut.*{place}.*{why}")
                status, out, said = run("leaks", self.path)
                self.assertEqual((status, out), (2, ""))
                self.assertRegex(said, f"{place}.*{why}: 'gpupool salvage' saves what is there")
                told = "damaged parts were left out: what was freed in them seems live"
                self.assertIn(f"Note: {told}", run("leaks", self.saved)[1])
                self.assertIn(told, run("leaks", self.saved, "--json")[2])
                self.assertTrue(json.loads(run("report", self.saved, "--json")[1].splitlines()[0])["is_cut"])

    def test_no_header_and_no_copy_of_it(self):
        begin, end, text = self.members[2]
        for data, why in ((self.packed[begin:end], r"\d+ bytes that the file unpacks to are missing before this"),
                          (gzip.compress(text), "the header of the recording is missing")):  # fmt: skip
            status, said = self.save(data)
            self.assertEqual(status, 2)
            self.assertRegex(said, f"damaged.gpt: at byte 0: {why}, and at the end of the file is no copy of the "
                                   "header")

    def test_files_of_the_versions_before_are_whole(self):
        for data in (b"".join(gzip.compress(text) for _, _, text in self.members), gzip.compress(self.whole)):
            self.assertTrue(self.salvage(data)[0] == chunks_in(self.whole))
            status, _, said = run("leaks", self.path)
            self.assertEqual((status, said), (0, ""))

    def test_flips_lose_the_rest_of_their_member_only(self):
        pick = random.Random(13)
        for _ in range(int(os.environ.get("GPUPOOL_TEST_FLIPS", "1000"))):
            self.flip(pick.randrange(len(self.packed)), pick.randrange(8))

    def test_flips_of_what_is_not_events(self):
        """Of the header, of its copy, and of the end: a file with either of them is not one that was cut."""
        for begin, end, _ in (self.members[0], *self.members[-2:]):
            step = max(1, (end - begin) // 60)
            for at in range(begin, end, step):
                self.flip(at, at % 8)

    def test_a_part_that_is_no_more(self):
        """Sectors of zeroes, over the ends of members too; those before and behind are saved."""
        pick = random.Random(14)
        for _ in range(60):
            begin = pick.randrange(len(self.packed) - 4096)
            data = bytearray(self.packed)
            data[begin:begin + 4096] = bytes(4096)
            chunks, said = self.salvage(bytes(data))
            self.assert_saved(data, chunks, (begin, said))
            lost = [each for each in self.members if each[1] > begin and each[0] < begin + 4096]
            self.assertIn(f"{lost[-1][1] - lost[0][0]} bytes: ", said)

    def test_a_file_that_was_cut(self):
        """Or whose end was never written, and is zeroes."""
        pick = random.Random(15)
        whole = chunks_in(self.whole)
        for number in range(60):
            length = pick.randrange(self.members[0][1], len(self.packed) - 20)
            chunks, said = self.salvage(self.packed[:length] + bytes(number % 2 * 4096))
            self.assertEqual(chunks[:-1], whole[:max(len(chunks) - 1, 0)], (length, said))
            for (head, events), (whole_head, whole_events) in zip(chunks[-1:], whole[len(chunks) - 1:], strict=False):
                self.assertEqual((head, whole_events[:len(events)]), (whole_head, events), (length, said))
            expected = [each for each in self.members if each[1] <= length]
            self.assertGreaterEqual(len(chunks), len(self.chunks_of(expected)))


if __name__ == "__main__":
    unittest.main()
