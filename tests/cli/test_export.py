#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings in other tools' formats, by the formats' rules; test_viewers.py has those tools read them. GPUPOOL_COMMAND
is the command, GPUPOOL_LIBRARY the library."""

import http.client
import itertools
import json
import os
import pickle
import pickletools
import re
import signal
import socket
import subprocess
import sys
import unittest
from collections import Counter

import test_report
import test_watch

run = test_watch.run
MIB = 1 << 20
PAGE = 2 * MIB

# What the viewer's own reader of pickles knows; it throws on everything else.
KNOWN = set(
    "PROTO FRAME MARK STOP EMPTY_DICT DICT SETITEM SETITEMS EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 SHORT_BINUNICODE BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT NONE NEWTRUE NEWFALSE BINGET "
    "LONG_BINGET BINPUT LONG_BINPUT MEMOIZE".split())


def broken_rules(data):
    """What of the viewer's rules a snapshot breaks, in words: those of MemoryViz.js, which throws or draws wrongly."""
    broken = []
    pages = {}  # which stream has which 2 MiB
    for segment in data["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            if block["address"] != at:
                broken.append(f"a block at {block['address']:#x} does not follow its neighbour, which ends at {at:#x}")
            at += block["size"]
            if block["state"] not in ("active_allocated", "active_pending_free", "inactive"):
                broken.append(f"state {block['state']}")
        if at != segment["address"] + segment["total_size"]:
            broken.append(f"the blocks of {segment['address']:#x} do not fill it")
        pages.update((page, segment["stream"]) for page in pages_of(segment["address"], at))
    live = {block["address"]: block["requested_size"] for segment in data["segments"] for block in segment["blocks"]
            if block["state"] != "inactive"}  # fmt: skip
    for events in data["device_traces"]:
        if len(events) > 100_000:
            broken.append(f"{len(events)} events")
        broken += replay_backwards(events, pages, live)
    for frames in [block["frames"] for segment in data["segments"] for block in segment["blocks"]] + \
            [event["frames"] for events in data["device_traces"] for event in events]:
        for frame in frames:
            if not (isinstance(frame["name"], str) and isinstance(frame["filename"], str)):
                broken.append(f"frame {frame}")
    return broken


def pages_of(begin, end):
    return range(begin // PAGE, (end - 1) // PAGE + 1)


def replay_backwards(events, pages, live):
    broken = []
    for event in reversed(events):
        action, begin, end = event["action"], event["addr"], event["addr"] + event["size"]
        if action == "segment_unmap":
            pages.update((page, event["stream"]) for page in pages_of(begin, end))
        elif action == "segment_map":
            if any(pages.pop(page, None) != event["stream"] for page in pages_of(begin, end)):
                broken.append(f"{begin:#x} is mapped by the trace, and not for stream {event['stream']} behind it")
            broken += [f"{at:#x} is live where nothing is mapped" for at in live if begin <= at < end]
        elif action == "free_completed":
            live[begin] = event["size"]
            if len({pages.get(page, -1) for page in pages_of(begin, end)} - {-1}) != 1:
                broken.append(f"{begin:#x} is freed outside of all segments")
        elif action == "alloc":
            if live.pop(begin, None) != event["size"]:
                broken.append(f"{begin:#x} is allocated and not live behind it")
            if not event["frames"]:
                broken.append(f"the malloc of {begin:#x} has no frames")
    return broken


class Torch(test_report.Case):
    def snapshot(self, path, *options):
        out = self.folder / "x.pickle"
        status, _, said = run("export", path, "--format", "torch", "-o", out, *options)
        self.assertEqual(status, 0, said)
        return out, pickle.loads(out.read_bytes())

    def test_only_what_the_viewer_reads(self):
        path, _ = self.snapshot(self.record_training("leak", "fail", "hostile", "fragment"))
        seen = set()
        for instruction, argument, _ in pickletools.genops(path.read_bytes()):
            seen.add(instruction.name)
            if instruction.name == "PROTO":
                self.assertEqual(argument, 4)
        self.assertLessEqual(seen, KNOWN)
        self.assertNotIn("FRAME", seen)

    def test_the_rules_hold_for_all_traces_under_pressure(self):
        for trace in test_report.TRACES:
            recording = self.folder / f"{trace.name}.gpt"
            # Under so small a limit, chunks are taken from where they were again and again.
            replay = (os.environ["GPUPOOL_COMMAND"], "replay", "--device", "sim", "--passes", "1", "--json")
            status, said, _ = run("record", "-o", recording, "--", *replay, "--cap", "1.05x", trace)
            self.assertEqual(status, 0)
            (steals,), calls = json.loads(said)["steals"], json.loads(said)["driver_calls_by_kind"]
            self.assertGreater(steals, 400)
            self.assertGreater(calls["map"][0], calls["create"][0] + 400)  # the same chunks, again
            for options in ((), ("--at-peak",), ("--last", "1000")):
                with self.subTest(trace=trace.name, options=options):
                    _, data = self.snapshot(recording, *options)
                    self.assertEqual(broken_rules(data)[:3], [])
                    actions = Counter(event["action"] for event in data["device_traces"][0])
                    self.assertGreater(actions.total(), 900)
                    if options == ("--at-peak",):  # before the end, where all is unmapped
                        self.assertGreater(actions["segment_unmap"], 300)
                        self.assertGreater(actions["segment_map"], actions["segment_unmap"])

    def test_broken_rules_are_found(self):
        _, data = self.snapshot(self.record_training())
        self.assertEqual(broken_rules(data), [])
        block = {"address": 1 << 30, "size": 512, "state": "inactive", "frames": [{"name": None, "filename": ""}]}
        data["segments"].append({"address": 1 << 30, "total_size": 1024, "stream": 0, "blocks": [block]})
        data["device_traces"][0].append({"action": "segment_map", "addr": 0, "size": 512, "stream": 7, "frames": []})
        said = " ".join(broken_rules(data))
        for word in ("do not fill it", "not for stream 7", "frame "):
            self.assertIn(word, said)

    def test_the_story_is_the_recordings(self):
        _, data = self.snapshot(self.record_training("leak", "fail"))
        blocks = [block for segment in data["segments"] for block in segment["blocks"]]
        live = [block for block in blocks if block["state"] == "active_allocated"]
        self.assertEqual(sum(block["size"] for block in live), 80 * MIB)
        self.assertEqual(live[0]["frames"][0]["name"], "log_loss")
        self.assertEqual(live[0]["frames"][0]["filename"], "training.py")
        self.assertGreater(live[0]["frames"][0]["line"], 1)
        self.assertEqual(live[0]["frames"][-1]["name"], "loss history")
        (failed,) = [event for event in data["device_traces"][0] if event["action"] == "oom"]
        self.assertEqual((failed["size"], failed["frames"][-1]["name"]), (1 << 40, "evaluation"))
        _, peak = self.snapshot(self.record_training("leak", "fail", name="again.gpt"), "--at-peak")
        self.assertGreater(sum(segment["active_size"] for segment in peak["segments"]), 500 * MIB)


class Chrome(test_report.Case):
    def export(self, recording):
        """The events, once they are seen to be in order and to have the report's figures."""
        out = self.folder / "x.json"
        self.assertEqual(run("export", recording, "--format", "chrome", "-o", out)[0], 0)
        events = json.loads(out.read_text(encoding="utf-8"))["traceEvents"]
        names = [event["name"] for event in events if event["ph"] == "C"]
        counters = [event for event in events if event["ph"] == "C" and event["name"] == names[0]]
        moments = [event["ts"] for event in events if event["ph"] == "i"]
        for times in (*([event["ts"] for event in events if event["name"] == name] for name in set(names)), moments):
            self.assertEqual(times, sorted(times))
            self.assertGreaterEqual(min(times, default=counters[0]["ts"]), counters[0]["ts"])
            self.assertLessEqual(max(times, default=counters[-1]["ts"]), counters[-1]["ts"])
        told = test_report.data_of(self.report(recording, "--no-fit").read_text(encoding="utf-8"))["runs"][0]
        self.assertEqual(max(event["args"]["live"] for event in counters), told["peak_live"])
        self.assertEqual(counters[-1]["args"]["live"], told["end_live"])
        # At each moment, its parts are what the pool held, as the report says it: at the peak too.
        held = [512 * total for total in itertools.accumulate(told["timeline"]["reserved"])]
        peak = max(counters, key=lambda event: event["args"]["live"])
        self.assertEqual(sum(peak["args"].values()), held[told["timeline"]["peak"]])
        self.assertEqual(sum(counters[-1]["args"].values()), held[-1])
        by_tag = [event for event in events if event["ph"] == "C" and event["name"].endswith(" by tag")]
        has_tags = any(site[1] for site in told["sites"])
        self.assertEqual([sum(event["args"].values()) for event in by_tag],
                         [event["args"]["live"] for event in counters] if has_tags else [])
        self.assertEqual({event["pid"] for event in events}, {told["pid"]})
        return events

    def test_counters_are_in_order_and_true(self):
        events = self.export(self.record_training("leak", "fail", "hostile"))
        times = [event["ts"] for event in events if "ts" in event]
        self.assertEqual(times, sorted(times))
        marks = [event for event in events if event["ph"] == "i"]
        self.assertEqual(len(marks), 20 + 2)
        self.assertIn("malloc of 1 TiB failed", [event["name"] for event in marks])

    def test_of_all_traces(self):
        for trace in sorted((test_report.HERE.parent / "data").glob("*.trace.gz")):
            with self.subTest(trace.name):
                recording = self.folder / f"{trace.name}.gpt"
                self.record_replay(recording, trace)
                self.export(recording)

    def test_at_the_end_its_counters_are_the_pools_statistics(self):
        program = """
import ctypes, json, os, sys
sys.path.insert(0, os.environ["HERE"])
import played
player = played.Player()
events = played.events_of(os.environ["TRACE"])
for event in events[: len(events) // 2]:
    player.play(event)
sizes = (ctypes.c_uint64 * 512)(ctypes.sizeof(ctypes.c_uint64) * 512)
played.check(played.library.gpupool_stats(player.pool, sizes))
# Behind struct_size and device: limit, cached, releasable and slack bytes, and four figures a quantity.
told = {"releasable": sizes[3], "allocated": sizes[5 + 4], "reserved": sizes[5 + 3 * 4]}
print(json.dumps(told))
"""
        for trace in test_report.TRACES:
            with self.subTest(trace.name):
                recording, out = self.folder / f"{trace.name}.gpt", self.folder / "x.json"
                status, told, said = run("record", "-o", recording, "--", sys.executable, "-c", program,
                                         environment={"HERE": str(test_report.HERE), "TRACE": str(trace)})
                self.assertEqual(status, 0, said)
                told = json.loads(told)
                self.assertEqual(run("export", recording, "--format", "chrome", "-o", out)[0], 0)
                events = json.loads(out.read_text(encoding="utf-8"))["traceEvents"]
                last = [event["args"] for event in events if event["ph"] == "C" and "live" in event["args"]][-1]
                self.assertEqual(last["live"], told["allocated"])
                self.assertEqual(last["free chunks"], told["releasable"])
                self.assertEqual(sum(last.values()), told["reserved"])
                self.assertGreater(told["reserved"], told["allocated"])


class Prometheus(test_report.Case):
    def setUp(self):
        super().setUp()
        self.recording = self.record_training("leak", "fail", "hostile")

    def figures(self, text):
        return dict(re.findall(r"^(gpupool_\w+\{[^\n]*\}) (\d+)$", text, re.MULTILINE))

    def test_the_text(self):
        out = self.folder / "x.prom"
        self.assertEqual(run("export", self.recording, "--prometheus", "-o", out)[0], 0)
        self.assertEqual(out.stat().st_mode & 0o777, 0o666 & ~test_watch.os.umask(os.umask(0o22)))
        text = out.read_text(encoding="utf-8")
        told = {name.split("{")[0]: int(value) for name, value in self.figures(text).items()}
        self.assertEqual(told["gpupool_live_bytes"], 80 * MIB)
        self.assertEqual(told["gpupool_live_blocks"], 20)
        self.assertIn('tag="loss history"} 83886080', text)
        self.assertRegex(text, r'mallocs_total\{[^}]*result="failed"\} 1\n')
        self.assertTrue(text.endswith("\n"))
        seen = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual([name for name, _ in self.figures(text).items()], list(self.figures(text)))

    def test_it_answers_in_its_own_process(self):
        server = subprocess.Popen([os.environ["GPUPOOL_COMMAND"], "export", self.recording, "--prometheus", "--listen",
                                   "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r"port (\d+)", server.stderr.readline()).group(1))

            def get(path):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", path)
                answer = connection.getresponse()
                text = answer.read().decode()
                connection.close()
                return answer.status, answer.getheader("Content-Type"), text

            status, kind, text = get("/metrics")
            self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
            self.assertEqual(text, run("export", self.recording, "--prometheus")[1])
            self.assertEqual(get("/")[0], 404)
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.sendall(b"\x00" * 20000)
            self.recording.unlink()
            self.assertEqual(get("/metrics")[0], 503)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(60), 0)
        finally:
            server.kill()
            server.stderr.close()
            server.wait()

    def test_bad_addresses(self):
        for address, why in (("here", "this is no ADDRESS:PORT"), ("1.2.3.4.5:1", "Name or service"),
                             ("127.0.0.1:x", "there are the ports 0 to 65535"), ("127.0.0.1:65536", "there are"),
                             ("1.2.3.4:99999", "there are"), ("127.0.0.1:-1", "there are"), ("127.0.0.1:", "there are"),
                             (":", "there are"), ("127.0.0.1: 1", "there are")):
            status, _, said = run("export", self.recording, "--prometheus", "--listen", address)
            self.assertEqual(status, 2)
            self.assertIn(f"gpupool: --listen: '{address}': {why}", said)
        status, _, said = run("export", self.recording, "--listen", "127.0.0.1:0")
        self.assertEqual((status, said), (2, "gpupool: --listen answers Prometheus: it needs --prometheus\n"))


if __name__ == "__main__":
    unittest.main()
