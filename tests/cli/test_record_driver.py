#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs without gpupool under gpupool record, on the stand-ins for the driver and CUPTI."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from command import COMMAND, MIB, CommandTest, run

# A pool, and memory from the driver beside it.
BOTH = """
import ctypes, os, sys
cuda = ctypes.CDLL(os.environ["GPUPOOL_LIBCUDA"])
lib = ctypes.CDLL(sys.argv[1])
context, pool, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(5 << 20)) == 0
assert lib.gpupool_default_pool(0, ctypes.byref(pool)) == 0
assert lib.gpupool_malloc(pool, ctypes.c_uint64(100 << 20), ctypes.c_uint64(0), ctypes.byref(address)) == 0
"""
NOTHING = "the program has made no pool and allocated nothing by CUDA, so nothing was recorded"
ONLY_POOLS = "gpupool record: only pools of gpupool are recorded: "


class RecordDriverTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="gpupool_driver_")
        cls.addClassCleanup(folder.cleanup)
        cls.drivers = pathlib.Path(folder.name)
        shutil.copy(os.environ["FAKE_CUDA"], cls.drivers / "libcuda.so.1")
        shutil.copy(os.environ["FAKE_CUPTI"], cls.drivers / "libcupti.so.12")
        cls.program = cls.drivers / "program"
        source = pathlib.Path(__file__).parent / "cuda_program.c"
        subprocess.run(["cc", "-O1", "-rdynamic", source, "-o", cls.program, "-ldl", "-lpthread"], check=True)

    def setUp(self):
        super().setUp()
        self.environment = {
            "GPUPOOL_LIBCUDA": str(self.drivers / "libcuda.so.1"),
            "GPUPOOL_LIBCUPTI": str(self.drivers / "libcupti.so.12"),
            "GPUPOOL_BACKEND": "cuda",
        }
        self.path = self.folder / "run.gpt"

    def record(self, *words, options=(), program=None, **environment):
        return run(
            "record", "-o", self.path, *options, "--", program or self.program, *words,
            environment=self.environment | environment,
        )  # fmt: skip

    def live(self, path=None):
        """What a recording has live at its end: bytes and stack of each call site."""
        code, out, err = run("leaks", path or self.path, "--json")
        self.assertEqual(code, 0, err)
        found = [json.loads(line) for line in out.splitlines()]
        return sorted((each["bytes"], each["stack"]) for each in found if each["of"] == "site")

    def live_after(self, *words, **keywords):
        code, _, said = self.record(*words, **keywords)
        self.assertEqual(code, 0, said)
        self.assertNotIn("lost", said)
        return [bytes_ for bytes_, _ in self.live()]

    def test_a_plain_program_can_be_reported_replayed_and_exported(self):
        code, _, said = self.record("device:100", "async:10", "free", "device:30", "free", "device:7")
        self.assertEqual(code, 0, said)
        stacks = [stack for _, stack in self.live()]
        self.assertEqual([size for size, _ in self.live()], [107 * MIB])
        self.assertRegex(stacks[0], r"^load_weights\+0x[0-9a-f]+ \(program\)\n")
        code, trace, said = run("export", self.path)
        self.assertEqual(code, 0, said)
        self.assertEqual(re.findall(r"^a \d+ (\d+)", trace, re.MULTILINE), [str(n * MIB) for n in (100, 10, 30, 7)])
        self.assertEqual(len(re.findall(r"^f ", trace, re.MULTILINE)), 2)
        code, out, said = run("replay", "--device", "sim", self.write("run.trace", trace))
        self.assertEqual(code, 0, said)
        self.assertIn("130 MiB", out)
        page = self.folder / "page.html"
        self.assertEqual(run("report", self.path, "-o", page)[0], 0)
        text = page.read_text(encoding="utf-8")
        self.assertTrue("load_weights" in text and "cuda:0 (Stand-in GPU 0)" in text)
        to = ["-o", self.folder / "other"]
        for name, *words in (["advise"], ["salvage", *to], ["export", "--format", "pprof", "-o", page]):
            self.assertEqual(run(name, self.path, *words)[0], 0, words)

    def test_every_kind_of_memory_is_seen(self):
        kinds = ["device", "pitch", "async", "async_ptsz", "pool", "map", "pinned", "host", "managed"]
        sizes = [2 * number for number in range(1, 1 + len(kinds))]
        words = [f"{kind}:{size}" for kind, size in zip(kinds, sizes, strict=True)]
        code, _, said = self.record(*words)
        self.assertEqual(code, 0, said)
        for pool, expected in (("1", sizes[:6]), ("2", sizes[6:8]), ("3", sizes[8:])):
            trace = run("export", self.path, "--pool", pool)[1]
            blocks = re.findall(r"^a \d+ (\d+) (\d+)", trace, re.MULTILINE)
            self.assertEqual([int(size) for size, _ in blocks], [size * MIB for size in expected])
            if pool == "1":  # the thread's default stream
                self.assertEqual(len({stream for _, stream in blocks}), 2)

    def test_gpupool_as_a_part_of_the_program_is_known_by_its_names(self):
        self.assertEqual(self.live_after("pooled:5", "device:3"), [3 * MIB])

    def test_what_is_freed_unmapped_or_ends_with_its_context_is_not_live(self):
        for words, left in (
            (["device:3", "free"], []), (["managed:3", "free"], []), (["map:8", "unmap"], []), (["pool:4", "free"], []),
            (["async_ptsz:3", "free"], []), (["pitch:3", "free"], []),
            (["device:3", "pinned:4", "map:6", "end"], [6 * MIB]),
        ):  # fmt: skip
            with self.subTest(words):
                self.path = self.folder / f"{'_'.join(words)}.gpt"
                self.assertEqual(self.live_after(*words), left)

    def test_memory_of_pools_is_not_counted_twice(self):
        for mode in ("vmm", "driver"):
            with self.subTest(mode):
                self.path = self.folder / f"{mode}.gpt"
                code, _, said = self.record(
                    "-c", BOTH, os.environ["GPUPOOL_LIBRARY"], program=sys.executable, GPUPOOL_MODE=mode
                )  # fmt: skip
                self.assertEqual(code, 0, said)
                self.assertEqual([size for size, _ in self.live()], [100 * MIB])
                self.assertEqual([size for size, _ in self.live(f"{self.path}.driver")], [5 * MIB])

    def test_a_program_with_pools_only_has_one_file(self):
        program = BOTH.replace("assert cuda.cuMemAlloc_v2", "# ")
        code, _, said = self.record("-c", program, os.environ["GPUPOOL_LIBRARY"], program=sys.executable)
        self.assertEqual(code, 0, said)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.gpt"])

    def test_stacks_are_left_out_where_none_are_wanted(self):
        code, _, said = self.record("device:3", options=["--stacks", "none"])
        self.assertEqual((code, self.live()), (0, [(3 * MIB, "")]), said)

    def test_a_refusal_is_a_failed_malloc(self):
        code, out, said = self.record("device:3", "much", "much_async", options=["--last", "10min"])
        self.assertEqual((code, out), (0, "2\n2\n"), said)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["run.gpt", "run.gpt.oom"])
        page = self.folder / "page.html"
        self.assertEqual(run("report", f"{self.path}.oom", "-o", page)[0], 0)
        self.assertIn("failed", page.read_text(encoding="utf-8"))

    def test_threads_take_and_give_back(self):
        self.assertEqual(self.live_after("device:3", "churn:5000"), [3 * MIB])
        trace = run("export", self.path)[1]
        self.assertEqual((len(re.findall(r"^a ", trace, re.M)), len(re.findall(r"^f ", trace, re.M))), (20001, 20000))

    def test_a_ring_keeps_the_newest_and_what_is_live(self):
        self.assertEqual(self.live_after("device:3", "churn:40000", options=["--last", "1MiB"]), [3 * MIB])
        self.assertEqual([size for size, _ in self.live(f"{self.path}.old")][-1], 3 * MIB)
        events = len(run("export", self.path)[1].splitlines())
        self.assertTrue(1000 < events < 300000, events)

    def test_what_was_written_before_a_kill_is_there(self):
        code, _, said = self.record("device:3", "async:4", "kill")
        self.assertEqual(code, 128 + signal.SIGKILL, said)
        self.assertIn("was killed by SIGKILL", said)
        self.assertEqual([size for size, _ in self.live()], [3 * MIB, 4 * MIB])

    def test_exec_and_children(self):
        code, _, said = self.record("device:3", "exec", "device:4")
        self.assertEqual(code, 0, said)
        self.assertEqual([size for size, _ in self.live()], [3 * MIB])
        self.assertEqual([size for size, _ in self.live(f"{self.path}.2")], [4 * MIB])
        self.path = self.folder / "children.gpt"
        words = ["-c", f"{self.program} device:5 & {self.program} device:6; wait"]
        code, _, said = self.record(*words, program="sh")
        self.assertEqual(code, 0, said)
        found = [self.live(path)[0][0] for path in self.folder.glob("children.gpt.*")]
        self.assertEqual(sorted(found), [5 * MIB, 6 * MIB])

    def test_a_forked_child_is_in_no_recording(self):
        self.assertEqual(self.live_after("device:3", "fork", "wait:0"), [3 * MIB])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.gpt"])

    def test_without_cupti_it_says_so_and_the_program_runs(self):
        for environment, why in (
            ({"GPUPOOL_LIBCUPTI": "/no/such/file"}, "CUPTI (libcupti.so) is not found; GPUPOOL_LIBCUPTI may name it"),
            ({"FAKE_CUPTI_FAIL": "35"}, "CUPTI refuses: CUPTI_ERROR_OF_THE_STAND_IN"),
            ({"FAKE_CUPTI_FAIL": "39"}, "another tool uses CUPTI here"),
        ):  # fmt: skip
            with self.subTest(why):
                code, out, said = self.record("much", **environment)
                self.assertEqual((code, out), (1, "2\n"))
                self.assertEqual(said.splitlines(), [ONLY_POOLS + why, f"gpupool: {NOTHING}"])
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_cupti_is_found_by_name_or_beside_the_runtime(self):
        del self.environment["GPUPOOL_LIBCUPTI"]
        self.assertEqual(self.live_after("device:3", LD_LIBRARY_PATH=str(self.drivers)), [3 * MIB])
        site = self.folder / "nvidia"
        for name, source in (("cuda_runtime/lib/libcudart", "FAKE_NVML"), ("cuda_cupti/lib/libcupti", "FAKE_CUPTI")):
            (site / name).parent.mkdir(parents=True)
            shutil.copy(os.environ[source], site / f"{name}.so.12")
        self.path = self.folder / "beside.gpt"
        found = self.live_after("device:3", LD_PRELOAD=str(site / "cuda_runtime/lib/libcudart.so.12"))
        self.assertEqual(found, [3 * MIB])

    def test_a_profiler_that_is_injected_stays(self):
        code, _, said = self.record("device:3", CUDA_INJECTION64_PATH="/opt/profiler.so")
        self.assertEqual(code, 1)
        self.assertIn("gpupool: only pools of gpupool are recorded: CUDA_INJECTION64_PATH is /opt/profiler.so", said)
        self.assertIn(NOTHING, said)

    def test_where_only_pools_are_wanted_cupti_is_left_to_others(self):
        code, _, said = self.record("device:3", options=["--pools-only"])
        self.assertEqual((code, said), (1, f"gpupool: {NOTHING}\n"))
        self.assertEqual(run("record", "--pools-only", "--pid", os.getpid())[0], 2)

    def test_programs_that_cannot_be_recorded(self):
        code, _, said = self.record(program="/no/such/program")
        self.assertEqual(code, 127)
        self.assertIn("/no/such/program cannot be run", said)
        code, _, said = self.record(program="true")
        self.assertEqual((code, said), (1, f"gpupool: {NOTHING}\n"))
        static = self.folder / "static"
        source = self.write("static.c", "int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", source, "-o", static], check=True)
        code, _, said = self.record(program=static)
        self.assertEqual(code, 1)
        self.assertIn("is linked statically, so that it cannot load a CUDA driver", said)
        self.assertEqual(self.record("device:3", program="true", options=["--last", "10m"])[0], 2)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["static", "static.c"])

    def test_run_and_record_go_together(self):
        code, _, said = self.record(
            "run", "--cap", "256MiB", "--", self.program, "async:64", "wait:0", program=COMMAND,
            GPUPOOL_LIBNVML=os.environ["FAKE_NVML"],
        )  # fmt: skip
        self.assertEqual(code, 0, said)
        self.assertEqual([size for size, _ in self.live()], [64 * MIB])

    def test_top_shows_it(self):
        recorder = subprocess.Popen(
            [COMMAND, "record", "-o", self.path, "--", self.program, "device:3", "pinned:5", "wait:60"],
            stdout=subprocess.PIPE, text=True, env=os.environ | self.environment, start_new_session=True,
        )  # fmt: skip
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.stdout.close)
        self.addCleanup(os.killpg, recorder.pid, signal.SIGKILL)
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        _, out, _ = run("top", "--once", "--json")
        found = [json.loads(line) for line in out.splitlines()]
        (pools,) = (each["pools"] for each in found if each.get("command", "").startswith("program device"))
        self.assertEqual(
            [(pool["name"], pool["device"], pool["live_bytes"], pool["live_blocks"]) for pool in pools],
            [("driver", "cuda:0", 3 * MIB, 1), ("driver: pinned", "cuda:0", 5 * MIB, 1)],
        )


if __name__ == "__main__":
    unittest.main()
