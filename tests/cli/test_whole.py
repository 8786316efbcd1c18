#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole processes that sleep and wake, on the stand-in driver: with and without gpupool, and what goes wrong."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from control_target import COMMAND, MIB, ControlCase

FAKE = os.environ["FAKE_CUDA"]
STATES = ("running", "locked", "checkpointed", "failed")

# Calls the driver itself, as a program does that has never heard of gpupool, each time that it is asked.
PLAIN = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
print("ready", flush=True)
for line in sys.stdin:
    assert cuda.cuMemsetD8Async(address, 7, ctypes.c_size_t(1 << 20), None) == 0
    print(ctypes.string_at(address.value, 1 << 20) == bytes([7]) * (1 << 20), flush=True)
"""


class WholeTest(ControlCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="gpupool_whole_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.processes = self.folder / "processes"
        self.processes.mkdir()
        self.driver = {"GPUPOOL_LIBCUDA": FAKE, "FAKE_CUDA_PROCESSES": str(self.processes)}
        self.environment |= self.driver | {"GPUPOOL_BACKEND": "cuda"}

    def plain(self, program=sys.executable, words=None):
        """`words`: what it is called as, and its arguments."""
        child = subprocess.Popen(
            words or [program, "-c", PLAIN, FAKE], executable=program,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment,
        )  # fmt: skip
        for each in (child.stdout.close, child.stdin.close, child.wait, child.kill):
            self.addCleanup(each)
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child

    def state(self, child):
        return STATES[(self.processes / str(child.pid)).read_bytes()[0]]

    def works(self, child):
        child.stdin.write("\n")
        child.stdin.flush()
        return child.stdout.readline() == "True\n"

    def whole(self, *words, fail="", **environment):
        done = subprocess.run(
            [COMMAND, *map(str, words), "--whole"], capture_output=True, text=True, timeout=60, check=False,
            env=os.environ | self.driver | {"FAKE_CUDA_FAIL": fail} | environment,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def must(self, *words, **options):
        code, out, err = self.whole(*words, "--json", **options)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_a_program_without_gpupool(self):
        child = self.plain()
        code, out, err = self.whole("sleep", child.pid)
        self.assertEqual(code, 0, err)
        self.assertRegex(out, rf"^process {child.pid}: asleep as a whole, in [0-9.e-]+ s\n$")
        self.assertIn("NCCL", err)
        self.assertEqual(self.state(child), "checkpointed")
        self.assertFalse(self.must("sleep", child.pid)["changed"])
        self.assertTrue(self.must("wake", child.pid)["changed"])
        self.assertFalse(self.must("wake", child.pid)["changed"])
        self.assertTrue(self.works(child))

    def test_a_look_changes_nothing(self):
        program = self.folder / "a-server"
        shutil.copy(os.path.realpath(sys.executable), program)
        child = self.plain(program)

        def look(who, *options):
            done = subprocess.run(
                [COMMAND, "info", "--process", str(who), *options], capture_output=True, text=True, timeout=60,
                check=False, env=os.environ | self.driver,
            )  # fmt: skip
            return done.returncode, done.stdout, done.stderr

        meanings = (
            "", f": a command is at it, or was killed; gpupool wake {child.pid} --whole ends that",
            f": asleep as a whole, until gpupool wake {child.pid} --whole", ": it cannot run on; end it",
        )  # fmt: skip
        for number, (state, meaning) in enumerate(zip(STATES, meanings, strict=True)):
            with self.subTest(state), (self.processes / str(child.pid)).open("r+b") as file:
                file.write(bytes([number]))
                file.flush()
                self.assertEqual(look(child.pid), (0, f"process {child.pid} (a-server): {state}{meaning}\n", ""))
                found = json.loads(look("a-server", "--json")[1])
                self.assertEqual(found, {"pid": child.pid, "name": "a-server", "state": state})
                self.assertEqual(self.state(child), state)
        for who, part in ((os.getpid(), "does not use CUDA"), ("no-such-name", "no process of yours is called")):
            code, out, err = look(who)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(part, err)

    def test_calls_wait_while_it_sleeps(self):
        child = self.plain()
        self.must("sleep", child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        time.sleep(0.2)
        self.must("wake", child.pid)
        self.assertEqual(child.stdout.readline(), "True\n")

    def test_a_program_with_gpupool_sleeps_by_its_pools_first(self):
        target = self.target("!pool = default_pool(); block = take(pool, 48 << 20); write(block, 48 << 20, 7)")
        done = self.must("sleep", target.pid)
        self.assertEqual((done["pools"], done["changed_pools"]), (1, 1))
        self.assertEqual(self.state(target), "checkpointed")
        done = self.must("wake", target.pid)
        self.assertEqual((done["changed"], done["changed_pools"]), (True, 1))
        self.assertEqual(target.do("state(pool), holds(block, 48 << 20, 7)"), "(0, True)")
        code, out, _ = self.whole("sleep", target.pid, "--drop")
        self.assertEqual(code, 0)
        self.assertIn("; 1 of its 1 pools slept first: 48 MiB given back, contents of 0 B saved", out)

    def test_by_name_and_by_device(self):
        program = self.folder / "a-server"
        shutil.copy(os.path.realpath(sys.executable), program)
        child = self.plain(program)
        self.assertEqual(self.must("sleep", "a-server")["pid"], child.pid)
        self.assertTrue(self.must("wake", "a-server")["changed"])
        nvml = {
            "GPUPOOL_LIBNVML": os.environ["FAKE_NVML"], "FAKE_NVML_ID": "GPU-1",
            "FAKE_NVML_USERS": f"{child.pid}:{64 * MIB}",
        }  # fmt: skip
        other = self.plain(program)
        code, out, err = self.whole("sleep", "a-server")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("are several processes", err)
        done = self.must("sleep", "--all-of-device", "GPU-1", **nvml)
        self.assertEqual((done["pid"], done["gpu_bytes"]), (child.pid, 64 * MIB))
        self.assertEqual((self.state(child), self.state(other)), ("checkpointed", "running"))
        self.assertIn("NVML knows no GPU", self.whole("sleep", "--all-of-device", "7", **nvml)[2])

    def test_names_of_more_than_15_letters(self):
        """Of which the system shows 15: those of files, of scripts, and those that a program was called as."""
        python = os.path.realpath(sys.executable)
        for name in ("inference-server", "inference-server-2"):
            shutil.copy(python, self.folder / name)
        first = self.plain(self.folder / "inference-server", ["server", "-c", PLAIN, FAKE])
        second = self.plain(self.folder / "inference-server-2")
        script = self.folder / "a-script-with-a-name"
        script.write_text(f"#!{python}\n{PLAIN}", encoding="utf-8")
        script.chmod(0o755)
        third = self.plain(script, [script, FAKE])
        fourth = self.plain(python, ["VLLM::EngineCore", "-c", PLAIN, FAKE])
        self.plain(python, ["python3", "-c", PLAIN, FAKE, "inference-server"])  # which is nobody's name
        for name, child in (("inference-server", first), ("inference-server-2", second), (script.name, third),
                            ("VLLM::EngineCore", fourth)):  # fmt: skip
            with self.subTest(name):
                self.assertEqual(self.must("sleep", name)["pid"], child.pid)
        self.assertIn("no process of yours is called", self.whole("sleep", "inference-server-3")[2])
        self.assertIn("are several processes", self.whole("sleep", "inference-serve")[2])
        (self.folder / "inference-server").unlink()  # as after an update
        self.assertEqual(self.must("wake", "inference-server")["pid"], first.pid)

    def test_a_failed_step_leaves_it_running(self):
        target = self.target("!pool = default_pool(); block = take(pool, 48 << 20); write(block, 48 << 20, 7)")
        for step in ("Lock", "Checkpoint"):
            with self.subTest(step):
                code, out, err = self.whole("sleep", target.pid, fail=f"cuCheckpointProcess{step}:1=801")
                self.assertEqual((code, out), (1, ""))
                self.assertIn("CUDA_ERROR_NOT_SUPPORTED (801)", err)
                self.assertEqual(self.state(target), "running")
                self.assertEqual(target.do("state(pool), holds(block, 48 << 20, 7)"), "(0, True)")

    def test_a_driver_that_does_not_begin_says_why(self):
        child = self.plain()
        code, out, err = self.whole("sleep", child.pid, fail="cuInit:1=2")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"process {child.pid}: the driver failed to look at it: CUDA_ERROR_OUT_OF_MEMORY (2)", err)
        self.assertEqual(self.state(child), "running")

    def test_a_wake_without_memory_says_who_has_it(self):
        child = self.plain()
        self.must("sleep", child.pid)
        nvml = {"GPUPOOL_LIBNVML": os.environ["FAKE_NVML"], "FAKE_NVML_ID": "GPU-1", "FAKE_NVML_USERS": f"1:{5 << 30}"}
        code, _, err = self.whole("wake", child.pid, fail="cuCheckpointProcessRestore:0=2", **nvml)
        self.assertEqual(code, 1)
        self.assertIn("GPU 0 has 3 GiB free, process 1 (", err)
        self.assertIn(") has 5 GiB", err)
        self.assertEqual(self.state(child), "checkpointed")
        self.must("wake", child.pid, "--timeout", 10, fail="cuCheckpointProcessRestore:1=2")
        self.assertTrue(self.works(child))

    def test_killed_at_each_step_a_wake_goes_on(self):
        target = self.target("!pool = default_pool(); block = take(pool, 48 << 20); write(block, 48 << 20, 7)")
        for command, steps in (("sleep", ("Lock", "Checkpoint")), ("wake", ("Restore", "Unlock"))):
            for step in steps:
                with self.subTest(step):
                    if command == "wake":
                        self.must("sleep", target.pid)
                    self.assertEqual(self.whole(command, target.pid, fail=f"cuCheckpointProcess{step}:1=kill")[0], -9)
                    if self.state(target) == "locked":
                        self.assertIn(f"gpupool wake {target.pid} --whole", self.whole("sleep", target.pid)[2])
                    self.must("wake", target.pid)
                    self.assertEqual(target.do("state(pool), holds(block, 48 << 20, 7)"), "(0, True)")

    def test_killed_after_each_step_a_wake_goes_on(self):
        target = self.target("!pool = default_pool(); block = take(pool, 48 << 20); write(block, 48 << 20, 7)")
        for command, step, state in (("sleep", "Lock", "locked"), ("sleep", "Checkpoint", "checkpointed"),
                                     ("wake", "Restore", "locked"), ("wake", "Unlock", "running")):  # fmt: skip
            with self.subTest(step):
                if command == "wake":
                    self.must("sleep", target.pid)
                fail = f"cuCheckpointProcess{step}:1=kill-after"
                self.assertEqual(self.whole(command, target.pid, fail=fail)[0], -9)
                self.assertEqual(self.state(target), state)
                self.assertEqual(self.must("wake", target.pid)["changed"], state != "running")
                self.assertEqual(target.do("state(pool), holds(block, 48 << 20, 7)"), "(0, True)")

    def test_a_step_that_fails_half_way_loses_the_process(self):
        """The driver cannot go on with it. What it said comes first, then what to do."""
        for command, step in (("sleep", "Lock"), ("sleep", "Checkpoint"), ("wake", "Restore"), ("wake", "Unlock")):
            with self.subTest(step):
                child = self.plain()
                if command == "wake":
                    self.must("sleep", child.pid)
                code, out, err = self.whole(command, child.pid, fail=f"cuCheckpointProcess{step}:1=lose")
                self.assertEqual((code, out), (1, ""))
                why = "CUDA_ERROR_DEVICE_UNAVAILABLE (46); it cannot run on: end it\n"
                self.assertIn(f"process {child.pid}: the driver failed to {step.lower()} it: {why}", err)
                self.assertNotIn("gpupool wake", err)
                self.assertEqual(self.state(child), "failed")

    def test_an_unlock_that_fails_says_how_to_go_on(self):
        """Of a wake, and of a sleep that could not go on."""
        target = self.target("!pool = default_pool(); block = take(pool, 48 << 20); write(block, 48 << 20, 7)")
        unlock = f"process {target.pid}: the driver failed to unlock it: CUDA_ERROR_NOT_SUPPORTED (801)"
        for command, fail, first in (
            ("sleep", "cuCheckpointProcessCheckpoint:1=2,", "failed to checkpoint it: CUDA_ERROR_OUT_OF_MEMORY (2); "),
            ("wake", "", ""),
        ):  # fmt: skip
            with self.subTest(command):
                if command == "wake":
                    self.must("sleep", target.pid)
                code, out, err = self.whole(command, target.pid, fail=f"{fail}cuCheckpointProcessUnlock:1=801")
                self.assertEqual((code, out), (1, ""))
                self.assertIn(f"{first}{unlock}; gpupool wake {target.pid} --whole goes on from there\n", err)
                self.assertEqual(self.state(target), "locked")
                self.must("wake", target.pid)
                self.assertEqual(target.do("state(pool), holds(block, 48 << 20, 7)"), "(0, True)")

    def test_a_process_that_ends_meanwhile(self):
        child = self.plain()
        with (self.processes / str(child.pid)).open("r+b") as file:
            file.seek(4)
            file.write(b"\1")  # a call that does not return
        sleep = subprocess.Popen(
            [COMMAND, "sleep", str(child.pid), "--whole", "--wait", "20"], stderr=subprocess.PIPE, text=True,
            env=os.environ | self.driver,
        )  # fmt: skip
        self.addCleanup(sleep.stderr.close)
        while self.state(child) != "locked":
            time.sleep(0.01)
        child.kill()
        child.wait()
        err = sleep.communicate(timeout=20)[1]
        self.assertEqual(sleep.returncode, 1)
        self.assertIn("the driver failed to lock it: CUDA_ERROR_INVALID_VALUE (1); it has ended\n", err)

    def test_a_driver_that_hangs_ends_the_command(self):
        child = self.plain()
        start = time.monotonic()
        code, _, err = self.whole("sleep", child.pid, "--wait", "0.1", fail="cuCheckpointProcessCheckpoint:1=hang")
        self.assertEqual(code, 1)
        self.assertLess(time.monotonic() - start, 20)
        self.assertIn("the driver has not ended checkpoint within 0.1 s", err)
        self.must("wake", child.pid)
        self.assertTrue(self.works(child))

    def test_a_process_that_does_not_come_to_rest_runs_on(self):
        child = self.plain()
        with (self.processes / str(child.pid)).open("r+b") as file:
            file.seek(4)
            file.write(b"\1")  # a call that does not return
        code, _, err = self.whole("sleep", child.pid, "--wait", "0.2")
        self.assertEqual((code, self.state(child)), (1, "running"))
        self.assertIn("did not come to rest within 0.2 s, and runs on", err)

    def test_who_cannot_sleep(self):
        child = self.plain()
        for words, part in (
            (["sleep", os.getpid()], "does not use CUDA"),
            (["sleep", "no-such-name"], 'no process of yours is called "no-such-name"'),
            (["sleep", 2**22 + 1], "there is no process"),
            (["sleep"], "PID is required"),
            (["sleep", child.pid, "--all-of-device", "0"], "not both"),
            (["sleep", child.pid, "--bytes", "1GiB"], "excludes"),
        ):
            with self.subTest(words):
                code, out, err = self.whole(*words)
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(part, err)
        child.kill()
        child.wait()
        self.assertIn("there is no process", self.whole("sleep", child.pid)[2])

    def test_processes_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        child = self.plain()
        nobody = 65534
        os.chown(self.processes, nobody, nobody)

        def as_nobody(*words):
            done = subprocess.run(
                [COMMAND, *map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                user=nobody, group=nobody, extra_groups=[], env=os.environ | self.driver,
            )  # fmt: skip
            return done.returncode, done.stderr

        try:
            self.assertEqual(as_nobody("--version"), (0, ""))
        except PermissionError:
            self.skipTest("another user cannot run the command here")
        for verb in ("sleep", "wake"):
            code, err = as_nobody(verb, child.pid, "--whole")
            self.assertEqual(code, 2, err)
            self.assertIn(f"process {child.pid} belongs to user 0, who alone may put it to sleep and wake it", err)
        self.assertEqual(self.state(child), "running")
        self.works(child)

    def test_a_process_that_the_driver_lost(self):
        child = self.plain()
        with (self.processes / str(child.pid)).open("r+b") as file:
            file.write(b"\3")
        self.assertIn("has failed in an earlier checkpoint: end it", self.whole("sleep", child.pid)[2])
        self.assertIn("has failed in a checkpoint, and cannot run on", self.whole("wake", child.pid)[2])

    def test_an_older_driver_and_none(self):
        child = self.plain()
        old = self.folder / "libcuda.so.1"
        source = self.folder / "old.c"
        source.write_text(
            "int cuInit(unsigned f) { return f; }\nint cuGetErrorName(int c, const char** n) { *n = 0; return c; }\n"
            "int cuDriverGetVersion(int* v) { *v = 12040; return 0; }\n"
        )
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", old], check=True)
        code, _, err = self.whole("sleep", child.pid, GPUPOOL_LIBCUDA=str(old))
        self.assertEqual(code, 2)
        self.assertIn("this driver, for CUDA 12.4, cannot put a whole process to sleep: 570 can", err)
        self.assertIn("no CUDA driver here", self.whole("sleep", child.pid, GPUPOOL_LIBCUDA="/no/such/file")[2])


if __name__ == "__main__":
    import unittest

    unittest.main()
