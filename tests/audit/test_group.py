#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gpupool run --hooks --share`: programs that never heard of gpupool, and a pool of another process, in one group."""

import ast
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

from audited import COMMAND, MIB, PRELUDE, AuditTest

LIMIT = 64 * MIB

# Both do what they are told, line by line, and print what came of it.
SERVE = """
for line in sys.stdin:
    print(eval(line), flush=True)
"""
STRANGER = (
    PRELUDE
    + """
blocks = []
def get(mib, function=cuda.cuMemAlloc_v2, *more):
    block = take(mib * MIB, function, *more)
    if type(block) is int: return block
    blocks.append(block)
    return 0
def total():
    bytes = c_size_t()
    assert cuda.cuDeviceTotalMem_v2(byref(bytes), 0) == 0
    return bytes.value // MIB
"""
    + SERVE
)
POOL = (
    """
import ctypes, os, sys
lib = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
lib.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
lib.gpupool_free.argtypes = [ctypes.c_void_p, u64, u64]
pool = ctypes.c_void_p()
assert lib.gpupool_default_pool(0, ctypes.byref(pool)) == 0
blocks = []
def get(mib):
    block = u64()
    result = lib.gpupool_malloc(pool, mib << 20, 0, ctypes.byref(block))
    if result == 0: blocks.append(block)
    return result
def give():
    return lib.gpupool_free(pool, blocks.pop(), 0)
"""
    + SERVE
)


class Program:
    def __init__(self, test, words, environment):
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        test.addCleanup(self.end)

    def __call__(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return ast.literal_eval(self.process.stdout.readline())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class GroupTest(AuditTest):
    def setUp(self):
        super().setUp()
        self.environment |= {
            "GPUPOOL_SHARE_DIR": str(self.folder), "GPUPOOL_SHARE_LIMIT": str(LIMIT),
            "GPUPOOL_BACKEND": "cuda",
        }  # fmt: skip
        self.environment.pop("GPUPOOL_SHARE", None)

    def stranger(self, *options):
        words = [COMMAND, "run", "--hooks", "--share", "team", *options, "--", sys.executable, "-c", STRANGER]
        return Program(self, words, self.environment)

    def pool(self):
        own = {"GPUPOOL_SHARE": "team", "GPUPOOL_LIBCUDA": os.environ["FAKE_CUDA"]}
        return Program(self, [sys.executable, "-c", POOL], self.environment | own)

    def region(self, device=0):
        """What is used, and the limit."""
        path = self.folder / f"team.GPU-fa000000-0000-0000-0000-0000000000{device:02x}"
        page = path.read_bytes()[:4096]
        return (struct.unpack_from("=Q", page, 192)[0] >> 32) * 512, struct.unpack_from("=Q", page, 128)[0] * 512

    def set_limit(self, mib):
        words = [COMMAND, "share", "--group", "team", "--set", f"limit={mib}MiB"]
        done = subprocess.run(words, env=self.environment | {"GPUPOOL_LIBCUDA": os.environ["FAKE_CUDA"]}, check=False)
        self.assertEqual(done.returncode, 0)


class Beside(GroupTest):
    def test_a_pool_and_a_stranger_take_from_one_budget(self):
        pool, stranger = self.pool(), self.stranger()
        self.assertEqual(pool("get(40)"), 0)
        self.assertEqual(stranger("[bytes // MIB for bytes in info()], total()"), ([24, 64], 64))
        self.assertEqual(stranger("get(25), get(24), take(1), info()[0], cuda.driver_used(0) // MIB"), (2, 0, 2, 0, 24))
        self.assertEqual(self.region(), (LIMIT, LIMIT))
        self.assertNotEqual(pool("get(2)"), 0)
        self.assertEqual(stranger("cuda.cuMemFree_v2(blocks.pop()), info()[0] // MIB"), (0, 24))
        self.assertEqual(pool("get(24)"), 0)
        self.assertEqual(self.region(), (LIMIT, LIMIT))

    def test_what_a_pool_has_cached_is_the_strangers(self):
        pool, stranger = self.pool(), self.stranger()
        self.assertEqual(pool("[get(20), get(40), give()]"), [0, 0, 0])
        self.assertEqual(stranger("get(44), get(1)"), (0, 2))
        self.assertEqual(self.region(), (LIMIT, LIMIT))

    def test_chunks_arrays_and_the_drivers_pools_are_the_groups(self):
        stranger = self.stranger()
        self.assertEqual(stranger("type(create(20 * MIB)) is c_ulonglong, create(45 * MIB)"), (True, 2))
        self.assertEqual(stranger("get(20, cuda.cuMemAllocAsync, None)"), 0)
        self.assertEqual(self.region()[0], 52 * MIB)  # the stand-in's pools grow by 32 MiB
        self.assertEqual(stranger("get(20, cuda.cuMemAllocAsync, None), cuda.driver_used(0) // MIB"), (2, 52))
        self.assertEqual(stranger("cuda.cuMemFreeAsync(blocks.pop(), None), get(44)"), (0, 0))
        self.assertEqual(self.region()[0], LIMIT)

    def test_a_cap_and_a_group_both_hold(self):
        stranger, other = self.stranger("--cap", "16MiB"), self.stranger()
        self.assertEqual(stranger("[bytes // MIB for bytes in info()], get(17), get(16)"), ([16, 16], 2, 0))
        self.assertEqual(other("get(56), get(44), [bytes // MIB for bytes in info()]"), (2, 0, [4, 64]))
        self.assertEqual(stranger("[bytes // MIB for bytes in info()]"), [0, 16])

    def test_nvml_tells_of_the_group(self):
        """The parts are the whole, without what the system keeps for itself."""
        program = PRELUDE + """
nvml, handle = ctypes.CDLL(os.environ["GPUPOOL_LIBNVML"]), c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0
class Memory(ctypes.Structure):
    _fields_ = [("version", c_uint), *((name, c_ulonglong) for name in ("total", "reserved", "free", "used"))]
memory = Memory(ctypes.sizeof(Memory) | 2 << 24)
take(3 * MIB)
assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, byref(memory)) == 0
print(*(n // MIB for n in (memory.total, memory.reserved, memory.free, memory.used)))
"""
        code, out, err = self.hooked(["--share", "team"], sys.executable, "-c", program)
        self.assertEqual((code, out.strip()), (0, "64 0 61 3"), err)

    def test_a_limit_that_is_changed_holds_at_once(self):
        stranger = self.stranger()
        self.assertEqual(stranger("get(40)"), 0)
        self.set_limit(48)
        self.assertEqual(stranger("get(9), get(8), total()"), (2, 0, 48))
        self.set_limit(16)
        self.assertEqual(stranger("take(1), [bytes // MIB for bytes in info()]"), (2, [0, 16]))
        self.assertEqual(stranger("cuda.cuMemFree_v2(blocks.pop(0)), get(8), take(1)"), (0, 0, 2))
        self.set_limit(80)
        self.assertEqual(stranger("get(64), take(1)"), (0, 2))

    def test_each_device_has_a_group_of_its_own(self):
        stranger = self.stranger()
        found = stranger("get(64), type(create(64 * MIB, 1)) is c_ulonglong, create(1, 1), create(1)")
        self.assertEqual(found, (0, True, 2, 2))
        self.assertEqual(self.region(1), (LIMIT, LIMIT))


class Ends(GroupTest):
    def soon(self, program, expression):
        """The stand-ins do not know of each other, so the device confirms what the dead had after 200 ms."""
        end = time.monotonic() + 5
        while (result := program(expression)) != 0 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(result, 0)

    def test_what_a_killed_stranger_had_is_free_again(self):
        pool, other = self.pool(), self.stranger()
        self.assertEqual((pool("get(8)"), other("get(1)")), (0, 0))
        for takes in (pool, other):
            stranger = self.stranger()
            self.assertEqual(stranger("get(40)"), 0)
            stranger.kill()
            self.soon(takes, "get(46)")
            self.assertIn(self.region()[0] // MIB, range(55, 65))  # a pool may have some cached
            self.assertEqual(takes("give()" if takes is pool else "cuda.cuMemFree_v2(blocks.pop())"), 0)

    def test_and_what_one_had_that_ended(self):
        stranger = self.stranger()
        self.assertEqual(stranger("get(64)"), 0)
        stranger.process.stdin.close()
        stranger.process.wait()
        self.soon(self.pool(), "get(64)")

    def test_a_killed_pool_leaves_its_memory_to_a_stranger(self):
        pool, stranger = self.pool(), self.stranger()
        self.assertEqual((pool("get(60)"), stranger("get(4)")), (0, 0))
        pool.kill()
        self.assertEqual(stranger("get(60)"), 0)
        self.assertEqual(self.region()[0], LIMIT)

    def test_a_stopped_member_delays_a_stranger_by_50_ms(self):
        pool, stranger = self.pool(), self.stranger()
        self.assertEqual(pool("[get(60), give(), get(4)]"), [0, 0, 0])
        pool.process.send_signal(signal.SIGSTOP)
        try:
            start = time.perf_counter()
            self.assertEqual(stranger("get(60)"), 2)
            self.assertLess(time.perf_counter() - start, 2)
        finally:
            pool.process.send_signal(signal.SIGCONT)


class Threads(GroupTest):
    def test_two_processes_of_16_threads_never_have_more_than_the_limit(self):
        program = self.compile("churn.c")
        words = [COMMAND, "run", "--hooks", "--share", "team", "--", program, "60000"]
        self.environment["GPUPOOL_SHARE_LIMIT"] = str(48 * MIB)
        runs = [
            subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True, env=self.environment)
            for _ in range(2)
        ]
        most = looks = 0
        while any(run.poll() is None for run in runs):
            try:
                used, limit = self.region()
            except FileNotFoundError:
                continue
            self.assertLessEqual(used, 48 * MIB)
            self.assertEqual(limit, 48 * MIB)
            most, looks = max(most, used), looks + 1
        outs = [run.communicate()[0] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0])
        for out in outs:
            given, refused, peak, left = map(int, out.split())
            self.assertEqual((given + refused, left), (16 * 60000, 0))
            self.assertLessEqual(peak, 48 * MIB)
            self.assertGreater(refused, 0)
        print(f"{most} of {48 * MIB} in {looks} looks", file=sys.stderr)
        self.assertEqual(self.region()[0], 0)  # nothing of what was taken is lost


class BadInput(GroupTest):
    def refused(self, words, *options, **environment):
        code, _, err = self.start(COMMAND, "run", *options, "--", "true", **environment)
        self.assertEqual(code, 2, err)
        self.assertIn(words, err)

    def test_what_cannot_be_is_refused_before_the_program_begins(self):
        self.refused("needs --hooks or --keep", "--share", "team", "--cap", "8MiB")
        self.refused("a group has 1 to 48", "--hooks", "--share", "../team")
        self.refused("no group of a broker", "--hooks", "--share", "team", GPUPOOL_SHARE_SOCKET="/run/broker")
        self.refused("GPUPOOL_SHARE_LIMIT", "--hooks", "--share", "team", GPUPOOL_SHARE_LIMIT="90%")

    def test_a_region_that_cannot_be_used_is_said(self):
        self.environment["GPUPOOL_SHARE_DIR"] = str(self.folder / "missing")
        program = "print(type(take(1)) is c_ulonglong)"
        code, out, err = self.hooked(["--share", "team"], sys.executable, "-c", PRELUDE + program)
        self.assertEqual((code, out), (0, "True\n"), err)
        self.assertEqual(err.count("no budget of a group: "), 1, err)

    def test_pools_in_the_program_are_not_charged_twice(self):
        code, out, err = self.start(COMMAND, "run", "--hooks", "--share", "team", "--print", "--", "true")
        self.assertEqual(code, 0, err)
        self.assertIn("GPUPOOL_RUN_SHARE=team\n", out)
        self.assertIn("GPUPOOL_SHARE=\n", out)


if __name__ == "__main__":
    unittest.main()
