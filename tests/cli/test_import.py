#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupool import of PyTorch's snapshots, as Python's pickle writes them. GPUPOOL_COMMAND is the command,
GPUPOOL_LIBRARY the library."""

import contextlib
import gzip
import json
import os
import pickle
import random
import re
import resource
import struct
import subprocess
import unittest

import test_report
import test_watch

run = test_watch.run
BASE = 0x7F0000000000
US = 1_700_000_000_000_000
MIB = 1 << 20

FRAMES = [{"name": "forward", "filename": "model.py", "line": 12}, {"name": "main", "filename": "train.py", "line": 3}]
CLEANER = [{"name": "clean", "filename": "train.py", "line": 99}]


def event(action, place, size, moment, stream=0, frames=FRAMES, **more):
    """As PyTorch writes an event; `place` is in MiB."""
    where = {"device_free": 1 << 30} if action == "oom" else {"addr": BASE + place * MIB}
    return {"action": action, **where, "size": size, "stream": stream, "time_us": US + moment, "frames": frames,
            "compile_context": "N/A", "user_metadata": "", **more}  # fmt: skip


def block(size, state, requested=0, frames=()):
    return {"size": size, "requested_size": requested, "state": state, "frames": list(frames)}


def segment(place, blocks, stream=0, device=0):
    return {"device": device, "address": BASE + place * MIB, "total_size": sum(one["size"] for one in blocks),
            "stream": stream, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
            "blocks": blocks}  # fmt: skip


def snapshot(*traces, segments=()):
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "max_split_size": -1,
                "garbage_collection_threshold": 0.5, "roundup_power2_divisions": {"1": 0}, "none": None,
                "largest": (1 << 64) - 1}  # fmt: skip
    return {"segments": list(segments), "device_traces": [list(trace) for trace in traces],
            "allocator_settings": settings, "external_annotations": []}  # fmt: skip


STORY = [
    event("segment_alloc", 0, 20 * MIB, 0),
    event("alloc", 0, 1000, 1),
    event("alloc", 1, 2048, 2, stream=94022),
    event("free_requested", 0, 1000, 3, frames=CLEANER),
    event("free_completed", 0, 1000, 4, frames=CLEANER),
    event("oom", 0, 99999999, 5),
    event("alloc", 0, 512, 6, user_metadata="step 1"),
    event("free_completed", 17, 4096, 7),
    event("free_requested", 18, 8192, 8, stream=5),
    event("free_completed", 18, 8192, 9, stream=5),
    event("segment_map", 64, 4 * MIB, 10, stream=7),
    event("segment_unmap", 66, 2 * MIB, 11, stream=7),
    event("segment_free", 128, 2 * MIB, 12),
    event("snapshot", 0, 0, 13),
]
# At the end. The second segment was there before the first event, and so was one of its blocks.
SEGMENTS = [
    segment(0, [block(512, "active_allocated", 512, FRAMES), block(MIB - 512, "inactive"),
                block(2048, "active_allocated", 2048, FRAMES), block(19 * MIB - 2048, "inactive")]),
    segment(32, [block(MIB, "inactive"), block(MIB, "active_allocated", 1000000, FRAMES),
                 block(2 * MIB, "active_pending_free", 2 * MIB)]),
    segment(64, [block(2 * MIB, "inactive")], stream=7),
]  # fmt: skip
TEXT = ["a 1 8192 5", "a 2 1000000 0", "a 3 1000 0", "a 4 2048 94022", "f 3", "a 5 512 0", "f 1"]
LIVE = 1000448 + 2048 + 512  # in blocks, which are multiples of 512
PEAK = 1000448 + 2048 + 1024 + 8192


class Case(test_report.Case):
    def write(self, data, name="snapshot.pickle"):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else pickle.dumps(data))
        return path

    def run_import(self, data, *options):
        """The status, the lines without comments, and what was said."""
        status, text, said = run("import", self.write(data), *options)
        return status, [line for line in text.splitlines() if not line.startswith("#")], said

    def recording(self, data, name="imported.gpt"):
        path = self.folder / name
        status, text, said = run("import", self.write(data), "--format", "recording", "-o", path)
        self.assertEqual((status, text, said), (0, "", ""))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        return path


class Trace(Case):
    def test_what_every_protocol_writes(self):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with self.subTest(protocol=protocol):
                data = pickle.dumps(snapshot(STORY, segments=SEGMENTS), protocol)
                self.assertEqual(self.run_import(data), (0, TEXT, ""))

    def test_a_packed_one_and_one_from_standard_input(self):
        data = gzip.compress(pickle.dumps(snapshot(STORY, segments=SEGMENTS)))
        self.assertEqual(self.run_import(data), (0, TEXT, ""))
        done = subprocess.run([test_watch.COMMAND, "import", "-"], input=data, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode().splitlines()[-1], TEXT[-1])

    def test_devices(self):
        data = snapshot(STORY, [], [event("alloc", 3, 77, 1)], segments=[segment(9, [], device=7)])
        status, _, said = self.run_import(data)
        self.assertEqual(status, 2)
        self.assertIn("several devices have blocks: 0 2. Choose one with --device", said)
        self.assertEqual(self.run_import(data, "--device", "2"), (0, ["a 1 77 0"], ""))
        status, _, said = self.run_import(data, "--device", "1")
        self.assertIn("device 1 has no blocks in it", said)
        path = self.recording(data)
        self.assertIn("choose one with --pool: 1 (4 mallocs), 3 (1 mallocs)", run("export", path)[2])
        self.assertEqual(run("export", path, "--pool", "3")[1].splitlines()[-1], "a 1 77 0")

    def test_a_history_of_blocks_alone(self):
        actions = [event("alloc", 0, 0, 1), event("free_requested", 0, 0, 2), event("alloc", 1, 5, 3),
                   event("free_completed", 1, 5, 4), event("alloc", 1, 6, 3)]  # fmt: skip
        self.assertEqual(self.run_import(snapshot(actions)), (0, ["a 1 5 0", "f 1", "a 2 6 0"], ""))

    def test_an_existing_file_is_replaced_by_a_good_one_only(self):
        out = self.write(b"before", "out.trace")
        status, _, said = self.run_import(pickle.dumps(snapshot(STORY))[:-1], "-o", out)
        self.assertEqual((status, out.read_bytes()), (2, b"before"), said)
        self.assertEqual(self.run_import(snapshot(STORY), "-o", out)[0], 0)
        self.assertIn("a 1 8192 5\n", out.read_text())
        self.assertEqual(len(list(self.folder.iterdir())), 2)

    def test_a_log_of_rmm_has_no_devices(self):
        for options in (("--device", "0"), ("--format", "recording")):
            status, _, said = self.run_import(b"1,2,allocate,0x200,4,0\n", *options)
            self.assertEqual(status, 2)
            self.assertIn("are for snapshots of PyTorch", said)


class Recording(Case):
    def test_leaks(self):
        status, lines = self.leaks(self.recording(snapshot(STORY, segments=SEGMENTS)))
        self.assertEqual(status, 0)
        told = {line["tag"]: line for line in lines}
        self.assertEqual({tag: (line["bytes"], line["blocks"]) for tag, line in told.items()},
                         {"": (LIVE - 512, 2), "step 1": (512, 1)})
        self.assertEqual({line["stack"] for line in lines}, {"forward (model.py:12)\nmain (train.py:3)"})

    def test_sites_are_where_python_is(self):
        """Native frames are PyTorch's own way to its allocator, unless there are no others."""
        native = [{"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
                  {"name": "at::empty", "filename": "RegisterCUDA.cpp", "line": 7}]
        between = {"name": "PyMethod_New", "filename": "??", "line": 0}
        python = [*native, FRAMES[0], between, {"name": "<module>", "filename": "<stdin>", "line": 1}]
        events = [event("alloc", 0, 1000, 1, frames=python), event("alloc", 4096, 1000, 2, frames=native)]
        _, lines = self.leaks(self.recording(snapshot(events)))
        self.assertEqual({line["stack"] for line in lines},
                         {"forward (model.py:12)\n<module> (<stdin>:1)",
                          "torch::unwind::unwind()\nat::empty (RegisterCUDA.cpp:7)"})

    def test_the_report(self):
        path = self.recording(snapshot(STORY, segments=SEGMENTS))
        (told,) = test_report.data_of(self.report(path).read_text(encoding="utf-8"))["runs"]
        self.assertEqual((told["end_live"], told["peak_live"]), (LIVE, PEAK))
        self.assertEqual((told["mallocs"], told["device"]), (5, "cuda:0"))
        end = next(moment for moment in told["moments"] if moment["name"] == "at the end")
        self.assertEqual(end["reserved"], sum(one["total_size"] for one in SEGMENTS))

    def test_why(self):
        path = self.recording(snapshot(STORY, segments=SEGMENTS))
        _, said, _ = run("why", hex(BASE + 100), path)
        self.assertRegex(said, r"100 bytes into live block \d of 512 bytes")
        self.assertRegex(said, r"(?s)freed block 3 of 1000 bytes.*forward \(model.*freed at.*clean \(train.py:99\)")
        self.assertIn("nothing is mapped there since 0.000011 s", run("why", hex(BASE + 67 * MIB), path)[1])

    def test_advice(self):
        # PyTorch has emptied its cache again and again, and half of what it held was not used at one time.
        trace = [event("segment_alloc", 800, MIB, 0)]
        for _ in range(10):
            for action in ("segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"):
                size = 200 if action.startswith("segment") else 100
                trace += [event(action, place, size * MIB, len(trace)) for place in (0, 200)]
            trace += [event(action, 800, MIB, len(trace)) for action in ("alloc", "free_completed")]
        status, text, said = run("advise", self.recording(snapshot(trace)), "--json")
        self.assertEqual(status, 0, said)
        told = {one["kind"]: one for one in json.loads(text)["advice"]}
        self.assertEqual(sorted(told), ["empty_cache", "limit"])
        self.assertGreater(told["limit"]["saved_bytes"], 190 * MIB)

    def test_a_long_one(self):
        trace = [event(action, place, 512 + place, 10 * place) for place in range(100_000) for action in
                 ("alloc", "free_requested", "free_completed")[: 3 if place % 10 else 1]]  # fmt: skip
        _, lines, _ = self.run_import(snapshot(trace))
        self.assertEqual(len(lines), 190_000)
        _, text, _ = run("export", self.recording(snapshot(trace)))
        self.assertEqual(text.splitlines()[2], "# duration 0.999990")
        self.assertEqual(text.splitlines()[3:], lines)

    def test_times_stay(self):
        moments = [0, 40_000_001, 70_000_007, 86_400_000_001]
        path = self.recording(snapshot([event("alloc", i, 512, moment) for i, moment in enumerate(moments)]))
        self.export_torch(path, "again.pickle")
        (trace,) = pickle.loads((self.folder / "again.pickle").read_bytes())["device_traces"]
        self.assertEqual([one["time_us"] - US for one in trace], moments)

    def test_all_forms(self):
        path = self.recording(snapshot(STORY, segments=SEGMENTS))
        forms = {}
        for form in ("text", "pprof", "torch", "chrome", "prometheus"):
            out = self.folder / f"x.{form}"
            status, _, said = run("export", path, "--format", form, "-o", out)
            self.assertEqual((status, said), (0, ""), form)
            forms[form] = out.read_bytes()
        self.assertEqual([line for line in forms["text"].decode().splitlines() if line[0] != "#"], TEXT)
        self.assertEqual(gzip.decompress(forms["pprof"]).count(b"forward"), 1)
        counters = [one for one in json.loads(forms["chrome"])["traceEvents"] if one["ph"] == "C"]
        self.assertEqual([one["args"]["live"] for one in counters if "live" in one["args"]][-1], LIVE)
        figures = dict(re.findall(r"^(gpupool_\w+)\{[^}]*\} (\d+)$", forms["prometheus"].decode(), re.MULTILINE))
        self.assertEqual(int(figures["gpupool_live_bytes"]), LIVE)
        self.assertEqual(int(figures["gpupool_reserved_bytes"]), 26 * MIB)
        # Before, there was one more segment.
        self.assertEqual(int(figures["gpupool_reserved_peak_bytes"]), 30 * MIB)
        status, text, said = run("replay", "--device", "sim", "--passes", "1", "--json", self.folder / "x.text")
        self.assertEqual(status, 0, said)
        self.assertEqual(json.loads(text)["peak_live_bytes"], PEAK)

    def test_our_own_snapshot_and_back(self):
        first = self.record_training("leak", "fail", "fragment", "hostile")
        self.export_torch(first, "first.pickle")
        second = self.recording((self.folder / "first.pickle").read_bytes())
        one, two = self.figures(first), self.figures(second)
        self.assertEqual(one, two)
        # Sizes are those of blocks, times are in microseconds, and marks are gone. All else is the same.
        self.assertEqual(self.events(first), self.events(second))
        self.export_torch(second, "second.pickle")
        again = self.recording((self.folder / "second.pickle").read_bytes(), "again.gpt")
        self.assertEqual(gzip.decompress(second.read_bytes()), gzip.decompress(again.read_bytes()))

    def export_torch(self, recording, name):
        status, _, said = run("export", recording, "--format", "torch", "--last", 10**7, "-o", self.folder / name)
        self.assertEqual(status, 0, said)

    def figures(self, path):
        text = run("export", path, "--prometheus")[1]
        return {(name, tag): value for name, tag, value in
                re.findall(r'^(gpupool_\w+)\{[^}]*?(tag="[^"]*")?\} (\d+)$', text, re.MULTILINE)
                if re.search("live|reserved|chunks|tag", name)}  # fmt: skip

    def events(self, path):
        """The trace, with sizes and tags of blocks."""
        found = []
        for line in run("export", path)[1].splitlines():
            words = line.split()
            if words[0] == "a":
                words[2] = str((int(words[2]) + 511) // 512 * 512)
            if words[0] in ("a", "f", "#g"):
                found.append(" ".join(words))
        return found


class Refused(Case):
    @contextlib.contextmanager
    def little_memory(self, mebibytes):
        """Of addresses, for what is started meanwhile."""
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes * MIB, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    def refuse(self, data, *words):
        out = self.folder / "out.gpt"
        status, lines, said = self.run_import(data, "--format", "recording", "-o", out)
        self.assertEqual((status, lines), (2, []), said)
        self.assertRegex(said, r"^gpupool: [^\n]*snapshot\.pickle: at byte \d+: [^\n]+\n$")
        for word in words:
            self.assertIn(word, said)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["snapshot.pickle"])

    def test_what_is_no_snapshot(self):
        wrong = [
            ([1, 2], "it has no list device_traces"),
            ("text", "it has no list device_traces"),
            (snapshot([]), "nothing was allocated"),
            (snapshot([{"action": "alloc"}]), "there should be a number 'addr' here"),
            (snapshot([{}]), "an event has no text 'action'"),
            (snapshot([7]), "an event has no text 'action'"),
            (snapshot([event("alloc", 0, 1, 1, addr=3)]), "0x3 is the address of no block"),
            (snapshot([event("alloc", 0, 1, 1, addr=-512)]), "0xfffffffffffffe00 is the address of no block"),
            (snapshot([event("segment_map", 0, 1000, 1)]), "a segment of 1000 bytes cannot be"),
            (snapshot(STORY, segments=[segment(0, [block(513, "inactive")])]), "a segment of 513 bytes cannot be"),
            (snapshot([event("alloc", 0, -1, 1)]), "a size of 18446744073709551615 bytes cannot be"),
            (snapshot([event("alloc", 0, 1, 1)] * 2 + [event("alloc", 0, 1, 1 << 51)]), "the time of an event"),
            (snapshot([event("alloc", 0, 1 << 70, 1)]), "a whole number has more than 64 bits"),
            (snapshot([{str(key): key for key in range(101)}]), "a dictionary of 101 keys"),
        ]  # fmt: skip
        for data, said in wrong:
            with self.subTest(said=said):
                self.refuse(data, said)

    def test_what_is_no_pickle_of_data(self):
        wrong = [
            (pickle.dumps(snapshot(STORY))[:-1], "the pickle ends too early"),
            (pickle.dumps(snapshot(STORY)) + b"x", "something follows the end of the pickle"),
            (b"\x80\x09.", "at byte 0: the pickle is of protocol 9"),
            (b"PK\x03\x04", "at byte 0: this is an archive"),
            (b"\x80\x04(.", "ends with more or less than one value"),
            (b"\x80\x04]]a.", "it has no list device_traces"),
            (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x", "at byte 11: 4611686018427387904 bytes are wanted"),
            (b"\x80\x04X\xff\xff\xff\xff", "at byte 7: "),
            (b"\x80\x04\x8b\xff\xff\xff\x7f", "at byte 2: a whole number of 2147483647 bytes is too large"),
            (b"\x80\x04h\x05.", "at byte 2: the memo has no value 5"),
            (b"\x80\x04Nr\xff\xff\xff\xff.", "at byte 3: the memo has no value 4294967295"),
            (b"\x80\x04a.", "values are wanted"),
            (b"\x80\x04e.", "a mark is wanted"),
            (b"\x80\x04N(u.", "keys and values are no dictionary's"),
            (b"\x80\x04}(Nu.", "a dictionary's last key has no value"),
            (b"(I12x\ntd.", "at byte 1: this is no whole number"),
            (b"(V\\u12\ntd.", "at byte 1: an escaped character is none"),
        ]
        for data, said in wrong:
            with self.subTest(said=said):
                self.refuse(data, said)

    def test_nothing_is_run(self):
        made = self.folder / "made"

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(made),)

        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            self.refuse(pickle.dumps(snapshot(STORY) | {"evil": Evil()}, protocol), "is not for plain data")
        self.refuse(b"\x80\x04cposix\nsystem\n(S'true'\ntR.", "at byte 2: instruction 0x63 is not for plain data")
        self.refuse(pickle.dumps(test_report.pathlib.Path), "is not for plain data")

    def test_lists_that_are_named_again_and_again(self):
        """With little memory for all that they would be if each were there by itself."""
        many = [event("alloc", 0, 1, 1)] * 100000
        frames = [{"name": "f" * 1000, "filename": "x", "line": 1}] * 256
        stacks = [event("alloc", 0, 1, 1, frames=[*frames, {"name": str(i)}]) for i in range(20000)]
        around = segment(0, [block(512, "active_allocated", 512)] * 100000)
        with self.little_memory(700):
            self.refuse(snapshot() | {"device_traces": [many] * 1000}, "named again and again")
            self.refuse(snapshot(STORY, segments=[around] * 1000), "named again and again")
            self.refuse(snapshot(stacks), "stacks are 128 times as long as the file")

    def test_lists_that_are_in_themselves(self):
        for make in (lambda data, own: data.update(device_traces=own),
                     lambda data, own: data.update(device_traces=[own]),
                     lambda data, own: data.update(segments=own),
                     lambda data, own: data["device_traces"][0][1].update(frames=own)):  # fmt: skip
            data, own = snapshot([dict(one) for one in STORY]), []
            own.append(own)
            make(data, own)
            status, _, said = self.run_import(data)
            self.assertIn(status, (0, 2), said)
        data = {}
        data["device_traces"] = [data]
        self.refuse(data, "nothing was allocated")

    def test_what_is_nested_deep(self):
        deep = b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b"."
        self.refuse(deep, "it has no list device_traces")
        self.refuse(b"\x80\x04" + b"(" * 1_000_000 + b"t" * 1_000_000 + b".", "it has no list device_traces")

    def test_what_unpacks_to_too_much(self):
        bomb = gzip.compress(b"\x80\x04" + b"]" * 300_000_000 + b".", 9)
        with self.little_memory(300):
            self.refuse(bomb, "up to here the file unpacks to more than 200 times its size")
        status, _, said = self.run_import(gzip.compress(pickle.dumps(snapshot(STORY)))[:-9])
        self.assertEqual(status, 2)
        self.assertIn("the gzip data is cut here", said)

    def test_cut_at_each_byte(self):
        for protocol in (0, 2, 4):
            whole = pickle.dumps({"device_traces": [[{"action": "alloc", "addr": BASE, "size": 7}]]}, protocol)
            self.assertEqual(self.run_import(whole), (0, ["a 1 7 0"], ""))
            for length in range(1, len(whole)):
                self.refuse(whole[:length])

    def test_damaged_files_are_refused_or_read(self):
        pick = random.Random(17)
        read = 0
        for number in range(300):
            data = bytearray(pickle.dumps(snapshot(STORY, segments=SEGMENTS), number % 6))
            for _ in range(pick.randrange(1, 6)):
                data[pick.randrange(len(data))] = pick.randrange(256)
            status, _, said = self.run_import(bytes(data))
            self.assertIn(status, (0, 2), said)
            read += status == 0
            if status == 2:  # what no longer begins as a pickle is read as a log
                self.assertRegex(said, r"^gpupool: [^\n]*snapshot\.pickle:(1: | at byte \d+: )[^\n]+\n$")
        self.assertGreater(read, 0)


if __name__ == "__main__":
    unittest.main()
