#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Advice for programs with a problem, and none for those without. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the
library."""

import json
import unittest

import test_report
import test_watch

run = test_watch.run
MIB = 1 << 20


class Advice(test_report.Case):
    def advise(self, path):
        status, said, wrong = run("advise", path, "--json")
        self.assertEqual((status, wrong), (0, ""))
        return {one["kind"]: one for one in json.loads(said)["advice"]}

    def test_a_leak_by_its_site(self):
        path = self.record_training("leak")
        told = self.advise(path)
        self.assertEqual(list(told), ["leak"])
        self.assertIn('log_loss (training.py:', told["leak"]["text"])
        self.assertIn('(tag "loss history") allocates: it grows by 4 MiB each mark since mark 1, and 80 MiB in 20 '
                      'blocks',
                      told["leak"]["text"])
        # All but those of the last steps.
        self.assertAlmostEqual(told["leak"]["saved_bytes"], 72 * MIB, delta=16 * MIB)
        _, said, _ = run("advise", path)
        self.assertEqual(said, f"1. {told['leak']['text']}\n")

    def test_a_cache_that_is_emptied_in_a_loop(self):
        program = """
lib.gpupool_empty.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
for step in range(12):
    blocks = [malloc(8 << 20) for _ in range(20)]
    for block in blocks: free(block)
    %s
"""
        told = self.advise(self.record(program % "check(lib.gpupool_empty(pool, None))"))
        self.assertEqual(list(told), ["empty_cache"])
        # The last time is at the end, when nothing comes behind it.
        self.assertRegex(told["empty_cache"]["text"],
                         r"11 times 1\.[67]\d GiB were given back in all, and 1\.[67]\d GiB of it taken again")
        self.assertGreater(told["empty_cache"]["saved_ns"], 1_000_000)
        self.assertEqual(self.advise(self.record(program % "pass", name="calm.gpt")), {})

    def test_blocks_that_others_pin(self):
        program = """
kept = []
for _ in range(100):
    push("records")
    block = malloc(100 << 10)
    pop()
    kept.append(block)
    %s
    others = [malloc(100 << 10) for _ in range(99)]
    temporary = globals().setdefault("temporary", []) + others
for block in temporary: free(block)
large = [malloc(64 << 20) for _ in range(32)]
time.sleep(0.05)
for block in large: free(block)
"""
        told = self.advise(self.record(program % "pass"))
        self.assertIn("pinned", told)
        self.assertIn('(tag "records")', told["pinned"]["text"])
        self.assertGreater(told["pinned"]["saved_bytes"], 150 * MIB)

    def test_a_stream_that_keeps_what_it_does_not_need(self):
        program = """
other = u64()
check(lib.gpupool_stream_create(pool, ctypes.byref(other)))
kept = [malloc(4 << 20) for _ in range(16)]
blocks = [malloc(16 << 20, other.value) for _ in range(16)]
for block in blocks: free(block, other.value)
%s
for step in range(60):
    free(malloc(1 << 20)); time.sleep(0.005)
"""
        told = self.advise(self.record(program % "pass"))
        self.assertIn("stream", told)
        self.assertIn("it still holds 256 MiB in free chunks", told["stream"]["text"])
        better = "check(lib.gpupool_empty(pool, None))"
        self.assertNotIn("stream", self.advise(self.record(program % better, name="better.gpt")))

    def test_a_batch_that_just_does_not_fit(self):
        path = self.record("""
lib.gpupool_set_limit.argtypes = [ctypes.c_void_p, u64]
check(lib.gpupool_set_limit(pool, 1 << 30))
weights = [malloc(20 << 20) for _ in range(20)]
mark("step 1")
address = u64()
for _ in range(10):
    if lib.gpupool_malloc(pool, 70 << 20, 0, ctypes.byref(address)) != 0:
        break
else:
    raise SystemExit("it fits")
""")
        told = self.advise(path)
        self.assertIn("batch", told)
        self.assertIn("a malloc of 70 MiB failed while 960 MiB were live, under a limit of 1 GiB",
                      told["batch"]["text"])
        self.assertIn("since the mark before at 95 % of its size, it fits", told["batch"]["text"])
        self.assertEqual(told["batch"]["saved_bytes"], 6 * MIB)

    def test_a_limit_that_would_do(self):
        path = self.folder / "loose.gpt"
        trace = test_report.HERE.parent / "data/streams_prefetch.trace.gz"
        self.record_replay(path, "--slack", "1", trace)
        told = self.advise(path)
        self.assertEqual(list(told), ["limit"])
        self.assertGreater(told["limit"]["saved_bytes"], 100 * MIB)

    def test_healthy_programs_get_none(self):
        path = self.record_training()
        self.assertEqual(self.advise(path), {})
        self.assertEqual(run("advise", path)[1], f"Nothing would save much: {path} is well as it is.\n")
        for name in ("lm_train", "detect_multiscale"):
            trace = test_report.HERE.parent / f"data/{name}.trace.gz"
            recording = self.folder / f"{name}.gpt"
            self.record_replay(recording, trace)
            self.assertEqual(self.advise(recording), {}, name)

    def test_the_report_has_it_too(self):
        path = self.record_training("leak")
        page = self.report(path).read_text(encoding="utf-8")
        self.assertIn("<h3>What to change</h3>", page)
        self.assertIn("it grows by 4 MiB each mark", page)
        self.assertNotIn("What to change", self.report(path, "--no-fit").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
