#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records programs and reads the recordings. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import gzip
import json
import os
import random
import struct
import subprocess
import sys
import threading
import unittest

from command import COMMAND, MIB, CommandTest, run

# What recorded programs begin with: the library through ctypes, and a pool on the simulated device.
PROLOGUE = """
import ctypes, os, sys, threading, time
lib = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
lib.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
lib.gpupool_free.argtypes = [ctypes.c_void_p, u64, u64]
pool = ctypes.c_void_p()
def check(status):
    assert status == 0, status
check(lib.gpupool_default_pool(0, ctypes.byref(pool)))
def malloc(size, stream=0):
    address = u64()
    check(lib.gpupool_malloc(pool, size, stream, ctypes.byref(address)))
    return address.value
def free(address, stream=0):
    check(lib.gpupool_free(pool, address, stream))
def mark(text):
    check(lib.gpupool_mark(text.encode()))
def push(text):
    check(lib.gpupool_tag_push(text.encode()))
def pop():
    check(lib.gpupool_tag_pop())
"""

LEAK = """
for _ in range(30000):
    malloc(700)
for step in range(10):
    push("activations")
    live = [malloc(2 << 20) for _ in range(20)]
    pop()
    push("planted")
    malloc(4 << 20)
    pop()
    for block in live:
        free(block)
    mark(f"step {step}")
"""


class Case(CommandTest):
    def record(self, program, *options, name="recording.gpt", environment=None):
        """Records a program in Python; returns the recording's path."""
        path = self.folder / name
        status, _, said = run("record", "-o", path, *options, "--", sys.executable, "-c", PROLOGUE + program,
                              environment=environment)
        self.assertEqual(status, 0, said)
        return path

    def leaks(self, path, *options):
        status, said, wrong = run("leaks", path, "--json", *options)
        self.assertEqual(wrong, "")
        return status, [json.loads(line) for line in said.splitlines()]


class Recording(Case):
    def test_what_is_no_file_is_written_to_and_stays(self):
        recording = self.record("free(malloc(1000))")
        pipe, link = self.folder / "pipe", self.folder / "null"
        os.mkfifo(pipe)
        link.symlink_to("/dev/null")
        reader = threading.Thread(target=pipe.read_bytes, daemon=True)
        reader.start()
        for path in (pipe, link):
            status, _, said = run("export", recording, "-o", path)
            self.assertEqual(status, 0, said)
        reader.join(10)
        self.assertTrue(pipe.is_fifo())
        # Nobody reads from it any more.
        status, _, said = run("export", recording, "-o", pipe)
        self.assertEqual(status, 2)
        self.assertIn("cannot be written: nobody reads from it", said)
        self.assertTrue(link.is_symlink())
        status, _, said = run("export", recording, "-o", self.folder)
        self.assertEqual(status, 2)
        self.assertIn("cannot be written: Is a directory", said)

    def test_replay_of_an_export_gives_the_same_figures(self):
        pick = random.Random(3)
        lines, live = [], []
        for number in range(20000):
            if live and pick.random() < 0.5:
                lines.append(f"f {live.pop(pick.randrange(len(live)))}")
            else:
                live.append(number)
                lines.append(f"a {number} {int(2 ** pick.uniform(5, 22))} {pick.randrange(3)}")
        trace = self.folder / "made.trace"
        trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
        recording = self.folder / "made.gpt"
        replay = ("replay", "--device", "sim", "--passes", "1", "--json")
        status, figures, said = run("record", "-o", recording, "--", COMMAND, *replay, trace)
        self.assertEqual(status, 0, said)
        exported = self.folder / "again.trace"
        self.assertEqual(run("export", recording, "-o", exported)[0], 0)
        # The replay frees what is left at the end, in its own order.
        events = [line for line in exported.read_text(encoding="utf-8").splitlines() if line[0] in "af"]
        self.assertEqual([line.split()[0] for line in events[:20000]], [line.split()[0] for line in lines])
        self.assertEqual([line.split()[2] for line in events[:20000] if line[0] == "a"],
                         [line.split()[2] for line in lines if line[0] == "a"])
        status, again, said = run(*replay, exported)
        self.assertEqual(status, 0, said)
        first, second = json.loads(figures.splitlines()[0]), json.loads(again.splitlines()[0])
        for figure in ("peak_live_bytes", "peak_reserved_bytes"):
            self.assertEqual(first[figure], second[figure])
        self.assertLess(recording.stat().st_size, 8 * 20000)

    def test_equal_stacks_are_one_call_site(self):
        path = self.folder / "late.gpt"
        self.addCleanup(path.unlink, missing_ok=True)
        program = f"""
fn = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
site = b""
def tell(user, text, capacity):
    ctypes.memmove(text, site, len(site))
    return len(site)
kept = fn(tell)
check(lib.gpupool_set_stack_fn(kept, None))
check(lib.gpupool_record_start({str(path).encode()!r}, 2))
for site in (b"first (a:1)", b"other (a:1)", b"third (a:1)", b"first (a:1)"):
    malloc(1 << 20)
check(lib.gpupool_record_stop())
"""
        subprocess.run([sys.executable, "-c", PROLOGUE + program], check=True)
        # As of a program that the library is part of, where two ways lead through it from one place.
        path.write_bytes(path.read_bytes().replace(b"other (a:1)", b"first (a:1)"))
        _, lines = self.leaks(path)
        self.assertEqual({line["stack"]: line["blocks"] for line in lines},
                         {"first (a:1)": 3, "third (a:1)": 1})

    def test_marks_tags_and_what_was_live_before(self):
        path = self.folder / "late.gpt"
        program = f"""
before = malloc(3 << 20)
check(lib.gpupool_record_start({str(path).encode()!r}, 0))
push("kv cache")
block = malloc(1000, 0)
mark("step 1")
free(before)
free(block)
check(lib.gpupool_record_stop())
malloc(5000)
"""
        subprocess.run([sys.executable, "-c", PROLOGUE + program], check=True)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        status, text, said = run("export", path)
        self.assertEqual(status, 0, said)
        lines = [line for line in text.splitlines() if not line.startswith("# ") and not line.startswith("#!")]
        self.assertEqual(lines, ["a 1 3145728 0", "#g kv cache", "a 2 1000 0", "#m step 1", "f 1", "f 2"])

    def test_threads_lose_no_event(self):
        path = self.record("""
def work(seed):
    live = []
    for i in range(4000):
        live.append(malloc(512 * (1 + (i * seed) % 40)))
        if i % 3:
            free(live.pop(0))
    for block in live:
        free(block)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 17)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
        status, text, said = run("export", path)
        self.assertEqual(status, 0, said)
        kinds = [line[0] for line in text.splitlines()]
        self.assertEqual((kinds.count("a"), kinds.count("f")), (64000, 64000))
        replayed = run("replay", "--device", "sim", "--json", "--passes", "1", path.with_suffix(".trace"))
        self.assertEqual(replayed[0], 2)  # no such file
        (self.folder / "x.trace").write_text(text, encoding="utf-8")
        self.assertEqual(run("replay", "--device", "sim", "--passes", "1", self.folder / "x.trace")[0], 0)

    def test_a_child_is_not_recorded_and_does_no_harm(self):
        path = self.record("""
blocks = [malloc(1 << 20) for _ in range(5)]
child = os.fork()
if child == 0:
    mark("from the child")
    os._exit(0)
os.waitpid(child, 0)
for block in blocks: free(block)
""")
        _, text, _ = run("export", path)
        self.assertNotIn("#m", text)
        self.assertEqual(text.count("\nf "), 5)

    def test_what_is_there_is_not_overwritten_nor_followed(self):
        there = self.folder / "there"
        there.write_text("precious", encoding="utf-8")
        link = self.folder / "link"
        link.symlink_to(self.folder / "elsewhere")
        for path in (there, link):
            status, _, said = run("record", "-o", path, "--", "true")
            self.assertEqual((status, "is there already" in said), (2, True), said)
            done = subprocess.run([sys.executable, "-c", PROLOGUE], capture_output=True, text=True, check=True,
                                  env=os.environ | {"GPUPOOL_RECORD": str(path)})
            self.assertIn("cannot be made: File exists", done.stderr)
        self.assertEqual(there.read_text(encoding="utf-8"), "precious")
        self.assertFalse((self.folder / "elsewhere").exists())

    def test_what_cannot_be_packed_stays_and_is_named(self):
        """The file has come while the program ran; the recordings of other processes are made all the same."""
        path = self.folder / "recording.gpt"
        program = PROLOGUE + "import pathlib, subprocess\nfree(malloc(1000))\n"
        other = program + "subprocess.run([sys.executable, '-c', os.environ['OTHER']], check=True)\n" \
            "for number in (os.getpid(), 1): pathlib.Path(f'{os.environ[\"THERE\"]}.{number}').touch()\n"
        status, _, said = run("record", "-o", path, "--", sys.executable, "-c", other,
                              environment={"OTHER": program, "THERE": str(path)})
        self.assertEqual(status, 1, said)
        (words,) = [line for line in said.splitlines() if "File exists" in line]
        part = words.partition("; what was recorded is in ")[2]
        status, _, said = run("salvage", part, "-o", self.folder / "salvaged.gpt")
        self.assertEqual(status, 0, said)
        for made in (self.folder / "salvaged.gpt", *self.folder.glob("recording.gpt.*[0-9]")):
            if made.stat().st_size != 0:
                self.assertEqual(run("export", made)[1].count("\na "), 1)
        self.assertEqual(sum(made.stat().st_size != 0 for made in self.folder.glob("recording.gpt.*")), 1)

    def test_a_recording_goes_to_a_file(self):
        recording = self.record("free(malloc(1000))")
        for words in (["salvage", recording, "-o", "-"], ["record", "-o", "-", "--", "true"],
                      ["record", "--pid", 1, "-o", "-"]):
            status, out, said = run(*words)
            self.assertEqual((status, out), (2, ""))
            self.assertIn("a recording goes to a file, not to standard output", said)
        self.assertFalse(os.path.exists("-"))

    def test_the_programs_status_is_the_commands(self):
        for program, expected in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137),
                                  (["./no such program"], 127), (["true"], 1)):
            status, _, said = run("record", "-o", self.folder / "x", "--", *program)
            self.assertEqual(status, expected, said)
        self.assertEqual(list(self.folder.iterdir()), [])


class Leaks(Case):
    def test_a_planted_leak_comes_first(self):
        path = self.record(LEAK)
        status, sites = self.leaks(path, "--fail-over", "1MiB")
        self.assertEqual(status, 1)
        self.assertEqual((sites[0]["tag"], sites[0]["bytes"], sites[0]["blocks"], sites[0]["bytes_per_mark"]),
                         ("planted", 40 * MIB, 10, 4 * MIB))
        self.assertEqual((sites[1]["blocks"], sites[1]["bytes_per_mark"]), (30000, 0))
        self.assertEqual(len(sites), 2)
        status, sites = self.leaks(path, "--growing", "--fail-over", "1MiB")
        self.assertEqual((status, len(sites)), (1, 1))
        self.assertEqual(self.leaks(path, "--fail-over", "100MiB")[0], 0)

    def test_what_is_freed_is_no_leak(self):
        path = self.record("for step in range(20):\n    free(malloc(1 << 20)); mark('step')\n")
        self.assertEqual(self.leaks(path, "--fail-over", "0"), (0, []))

    def test_native_stacks_name_functions(self):
        path = self.record("malloc(1 << 20)\n", "--stacks", "native")
        _, sites = self.leaks(path)
        self.assertIn("libffi", sites[0]["stack"])
        self.assertNotIn("libgpupool", sites[0]["stack"])


def fields_of(message):
    """(field, value) of a message of Protocol Buffers; texts and messages are bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            length = varint()
            yield key >> 3, message[at : at + length]
            at += length


def varints_of(packed):
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


class Profile(Case):
    def test_sums_are_those_of_the_recording(self):
        path = self.record(LEAK.replace("30000", "300"), "--stacks", "native")
        profile = self.folder / "profile.pb.gz"
        status, _, said = run("export", path, "--format", "pprof", "-o", profile)
        self.assertEqual(status, 0, said)
        fields = list(fields_of(gzip.decompress(profile.read_bytes())))
        texts = [value.decode() for field, value in fields if field == 6]
        self.assertEqual(texts[0], "")
        types = [texts[dict(fields_of(value))[1]] for field, value in fields if field == 1]
        self.assertEqual(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_space",
                                 "waste_space"])
        sums, planted = [0] * 6, [0] * 6
        locations = {dict(fields_of(value))[1] for field, value in fields if field == 4}
        for field, value in fields:
            if field != 2:
                continue
            sample = list(fields_of(value))
            values = list(varints_of(dict(sample)[2]))
            self.assertLessEqual(set(varints_of(dict(sample)[1])), locations)
            labels = {texts[label[1]]: texts[label[2]] for label in (dict(fields_of(v)) for f, v in sample if f == 3)
                      if 2 in label}
            sums = [a + b for a, b in zip(sums, values, strict=True)]
            if labels.get("tag") == "planted":
                planted = [a + b for a, b in zip(planted, values, strict=True)]
        self.assertEqual(sums[:4], [300 + 210, 300 * 1024 + 440 * MIB, 310, 300 * 1024 + 40 * MIB])
        self.assertEqual(sums[4:], [300 * 1024 + 80 * MIB, 300 * (1024 - 700)])
        self.assertEqual(planted, [10, 40 * MIB, 10, 40 * MIB, 40 * MIB, 0])


class Damaged(Case):
    """Files that are cut, corrupt, huge or of another version: one clear line, and never a crash."""

    def test_everything_that_can_be_wrong(self):
        whole = gzip.decompress(self.record(LEAK.replace("30000", "300")).read_bytes())
        path = self.folder / "broken.gpt"

        def refused(data, *words):
            path.write_bytes(data)
            status, out, said = run("leaks", path)
            self.assertEqual((status, out), (2, ""), said)
            self.assertEqual(said.count("\n"), 1, said)
            for word in words:
                self.assertIn(word, said)

        refused(b"", "at byte 0")
        refused(whole[:500], "at byte 500: the file ends within the 1144 bytes of its header")
        refused(b"NOTAPOOL" + whole[8:], "at byte 0: this is no recording")
        refused(whole[:8] + struct.pack("<I", 2) + whole[12:], "at byte 8: the recording is of version 2")
        refused(whole[:-5], f"at byte {len(whole) - 5}: the file ends within a chunk")
        refused(whole[:4096] + b"what" + whole[4100:], "at byte 4096: there should be a chunk")
        second = whole.index(b"GPCH", 4100)
        refused(whole[:second] + b"what" + whole[second + 4:], f"at byte {second}: there should be a chunk")
        refused(whole[:second], "the end of the file is missing: 'gpupool salvage' saves what is there")
        refused(whole[:32] + bytes(8) + whole[40:], "at byte 32: a clock without ticks")
        refused(gzip.compress(whole)[:-100], "broken.gpt")

    def test_texts_may_be_any_bytes(self):
        whole = gzip.decompress(self.record(LEAK.replace("30000", "300")).read_bytes())
        path = self.folder / "hostile.gpt"
        for bytes_, shown in ((b"\xc7lant\xffd", "\ufffdlant\ufffdd"), (b"\x1b[2Jted", "?[2Jted"),
                              (b"\x9b\r\n\0 te", "\ufffd??? te"), ("\u202epla\0".encode(), "?pla?"),
                              ("\u8a18\u9332!".encode(), "\u8a18\u9332!")):
            self.assertEqual(len(bytes_), len(b"planted"))
            path.write_bytes(whole.replace(b"planted", bytes_))
            status, out, said = run("leaks", path)
            self.assertEqual((status, said), (0, ""))
            self.assertIn(f"  {shown}  ", out)

    def test_garbage_never_crashes(self):
        whole = gzip.decompress(self.record(LEAK.replace("30000", "300")).read_bytes())
        pick = random.Random(5)
        path = self.folder / "broken.gpt"
        for round_ in range(150):
            data = bytearray(whole)
            for _ in range(pick.randrange(1, 8)):
                data[pick.randrange(len(data))] = pick.randrange(256)
            if pick.random() < 0.3:
                data = data[: pick.randrange(len(data))]
            path.write_bytes(data)
            status, _, said = run("leaks", path)
            self.assertIn(status, (0, 2), said)
            if status == 2:
                self.assertIn("at byte ", said)
            salvaged = self.folder / f"salvaged{round_}.gpt"
            if run("salvage", path, "-o", salvaged)[0] == 0:
                status, _, said = run("leaks", salvaged)
                self.assertEqual(status, 0, said)


class Import(Case):
    def test_the_log_of_rmm(self):
        log = self.folder / "rmm.csv"
        log.write_text("Thread,Time,Action,Pointer,Size,Stream\n"
                       "1,10:00:00,allocate,0x7f0000000000,1000,0x0\n"
                       "1,10:00:01,allocate,0x7f0000000400,2000,0x2\n"
                       "1,10:00:02,allocate failure,(nil),99999999,0x0\n"
                       "2,10:00:03,free,0x7f0000000000,1000,0x0\n", encoding="utf-8")
        status, text, said = run("import", log)
        self.assertEqual(status, 0, said)
        self.assertEqual(text, "a 1 1000 0\na 2 2000 2\n# a malloc of 99999999 bytes has failed\nf 1\n")

    def test_a_log_as_windows_writes_it(self):
        """With a mark of byte order, in UTF-8 or UTF-16, packed or not; a trace too."""
        text = "Thread,Time,Action,Pointer,Size,Stream\r\n1,10:00:00,allocate,0x7f0000000000,1000,0x0\r\n"
        trace = "# g\u00f6ne\r\na 1 1000 0\r\n"
        for encoding in ("utf-8-sig", "utf-16", "utf-16-be", "utf-8"):
            mark = "\ufeff" if encoding == "utf-16-be" else ""
            for pack in (bytes, gzip.compress):
                with self.subTest(encoding, pack=pack):
                    log = self.write("rmm.csv", pack((mark + text).encode(encoding)))
                    self.assertEqual(run("import", log), (0, "a 1 1000 0\n", ""))
                    played = self.write("x.trace", pack((mark + trace).encode(encoding)))
                    status, out, said = run("replay", "--device", "sim", "--passes", "1", "--json", played)
                    self.assertEqual((status, json.loads(out)["events"]), (0, 1), said)
        for content in (b"\xff\xfe", b"\xef\xbb\xbf", b"\xff", b"\xef\xbb"):
            self.assertEqual(run("import", self.write("rmm.csv", content))[0], 2)

    def test_an_import_that_fails_leaves_nothing_in_a_pipe(self):
        log = self.write("rmm.csv", "1,10:00:00,allocate,0x7f0000000000,1000,0x0\n" * 1 + "1,1,resize,0x1,4,0\n")
        status, out, said = run("import", log)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("rmm.csv:2: the action is not", said)

    def test_what_is_no_log(self):
        log = self.folder / "rmm.csv"
        for text, wrong in (("", "rmm.csv:0: nothing was allocated"), ("x\n", "rmm.csv:1: a line is"),
                            ("1,2,allocate,zz,4,0\n", "rmm.csv:1: the pointer is not a number"),
                            ("1,2,resize,0x1,4,0\n", "rmm.csv:1: the action is not"),
                            ("a" * 5000, "rmm.csv:1: the line is longer")):
            log.write_text(text, encoding="utf-8")
            status, _, said = run("import", log)
            self.assertEqual(status, 2)
            self.assertIn(wrong, said)


if __name__ == "__main__":
    unittest.main()
