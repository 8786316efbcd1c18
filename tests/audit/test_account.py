#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is counted, capped and answered, to the byte, for each kind of memory."""

import pathlib
import re
import sys
import unittest

from audited import PRELUDE, AuditTest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What NVML says of this process, in MiB, and doors with more than one step.
DOORS = """
libc = ctypes.CDLL(None)
def says(number):
    libc.setenv(b"FAKE_NVML_USERS", b"1:5,%d:%d" % (os.getpid(), number * MIB), 1)
def own(bytes):
    pool = c_void_p()
    assert cuda.cuMemPoolCreate(byref(pool), byref(Properties(1, 0, 1, 0))) == 0
    return take(bytes, cuda.cuMemAllocFromPoolAsync, pool, None)
def array(width, height, depth):
    shape, made = (c_size_t * 5)(width, height, depth, 0x20 | 4 << 32, 0), c_ulonglong()
    assert cuda.cuArray3DCreate_v2(byref(made), shape) == 0
def launch_captured(bytes):
    stream, graph = c_void_p(), c_void_p()
    assert cuda.cuStreamCreate(byref(stream), 0) == 0 and cuda.cuStreamBeginCapture_v2(stream, 0) == 0
    take(bytes, cuda.cuMemAllocAsync, stream)
    assert cuda.cuStreamEndCapture(stream, byref(graph)) == 0 and cuda.cuGraphLaunch(graph, stream) == 0
"""


class AccountTest(AuditTest):
    def test_memory(self):
        program = """
one = take(6 * MIB)
print([take(2 * MIB + 1), cuda.cuMemFree_v2(one), type(take(8 * MIB)) is c_ulonglong, take(1), cuda.driver_peak(0)])
"""
        found, report = self.result(program, "8MiB")
        self.assertEqual(found, [2, 0, True, 2, 8 << 20])
        self.assertIn(f"at most {8 << 20} bytes of {8 << 20}, 2 refused; given in all: memory {14 << 20}", report)

    def test_without_a_cap_it_only_counts(self):
        found, report = self.result("one = take(6 * MIB); print(cuda.cuMemFree_v2(one), info()[1] >> 30, sep=',')")
        self.assertEqual(found, (0, 64))
        self.assertIn(f"at most {6 << 20} bytes; given in all: memory {6 << 20}", report)

    def test_the_driver_judges_bad_arguments(self):
        program = """
print([take(0), cuda.cuMemAlloc_v2(None, c_size_t(1 << 40)), cuda.cuMemFree_v2(c_ulonglong(4711)),
       cuda.cuMemGetInfo_v2(None, None), cuda.cuCtxSetCurrent(None), take(64 * MIB)])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [1, 1, 1, 0, 0, 201])

    def test_what_the_driver_refuses_is_given_back(self):
        program = """
codes = [take(1 << 37) for turn in range(3)]
print(codes + [type(take(60 << 30)) is c_ulonglong])
"""
        found, report = self.result(program, "1TiB")
        self.assertEqual(found, [2, 2, 2, True])
        self.assertIn(f"at most {60 << 30} bytes of {1 << 40}, 0 refused", report)

    def test_a_pitch_is_the_drivers_choice(self):
        program = """
def pitched(width, height):
    address, pitch = c_ulonglong(), c_size_t()
    more = (byref(pitch), c_size_t(width), c_size_t(height), c_uint(4))
    return cuda.cuMemAllocPitch_v2(byref(address), *more) or address
one = pitched(100, 4096)                  # 512 of each 100 bytes
print([cuda.driver_used(0), pitched(1000, 1 << 61), take(6 * MIB + 1), cuda.cuMemFree_v2(one),
       pitched(100, 20000), cuda.driver_used(0), type(take(8 * MIB)) is c_ulonglong, cuda.driver_peak(0)])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [2 << 20, 2, 2, 0, 2, 0, True, 8 << 20])

    def test_chunks_live_as_long_as_a_handle_or_a_mapping(self):
        program = """
base = 1 << 45
steps = [0]
def step(result=0):
    assert result == 0, result
    steps.append(info()[0] // MIB)
one, two = create(2 * MIB), create(2 * MIB); step()
map(base, one, 2 * MIB); map(base + 2 * MIB, two, 2 * MIB); map(base + 4 * MIB, one, 2 * MIB); step()
step(cuda.cuMemRelease(one))                                                # still mapped, twice
step(cuda.cuMemUnmap(c_ulonglong(base), c_size_t(4 * MIB)))                 # two mappings at once
again = c_ulonglong()
step(cuda.cuMemRetainAllocationHandle(byref(again), c_void_p(base + 5 * MIB)))   # within it
step(cuda.cuMemUnmap(c_ulonglong(base + 4 * MIB), c_size_t(2 * MIB)))       # held by the new handle
step(cuda.cuMemRelease(again))
steps.append(create(7 * MIB))
step(cuda.cuMemRelease(two))
steps.append(cuda.cuMemRelease(two))
print(steps[1:] + [cuda.driver_used(0)])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [4, 4, 4, 4, 4, 4, 6, 2, 8, 1, 0])

    def test_chunks_are_charged_to_their_own_device(self):
        program = "print([type(create(8 * MIB, 1)) is c_ulonglong, type(create(8 * MIB)) is c_ulonglong, create(1, 1)])"
        self.assertEqual(self.result(program, "8MiB")[0], [True, True, 2])

    def test_arrays(self):
        program = """
class Array(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_uint),
                ("channels", c_uint), ("flags", c_uint)]
def make(function, *more):
    array = c_ulonglong()
    result = function(byref(array), *more)
    return result if result != 0 else array
shape = Array(256, 256, 4, 0x20, 4, 0)                   # 4 MiB
one = make(cuda.cuArray3DCreate_v2, byref(shape))
two = make(cuda.cuMipmappedArrayCreate, byref(shape), c_uint(3))
print([cuda.driver_used(0), (8 << 20) - info()[0], make(cuda.cuArray3DCreate_v2, byref(shape)),
       cuda.cuArrayDestroy(one), cuda.cuMipmappedArrayDestroy(two), info()[0]])
"""
        mipmap = (256 * 256 * 4 + 128 * 128 * 2 + 64 * 64) * 16
        self.assertEqual(
            self.result(program, "9MiB")[0],
            [(4 << 20) + mipmap, (4 << 20) + mipmap - (1 << 20), 2, 0, 0, 9 << 20],
        )

    def test_a_pool_is_charged_what_it_holds(self):
        """The stand-in's pools grow by 32 MiB and keep it."""
        program = """
one = take(MIB, cuda.cuMemAllocAsync, None)
kept = info()[0] // MIB
codes = [take(33 * MIB), cuda.cuMemFreeAsync(one, None), info()[0] // MIB]
two = take(20 * MIB, cuda.cuMemAllocAsync_ptsz, None)    # of what is kept
codes += [info()[0] // MIB, cuda.cuMemFreeAsync_ptsz(two, None)]
three = take(64 * MIB)                                   # what is kept makes way
print([kept] + codes + [type(three) is c_ulonglong, cuda.driver_peak(0) // MIB])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [32, 2, 0, 32, 32, 0, True, 64])

    def test_pools_of_the_programs_own(self):
        program = """
pool = c_void_p()
assert cuda.cuMemPoolCreate(byref(pool), byref(Properties(1, 0, 1, 1))) == 0      # of the other device
def second():
    free, total = c_size_t(), c_size_t()
    context(1)
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
    context(0)
    return free.value // MIB
one = take(40 * MIB, cuda.cuMemAllocFromPoolAsync, pool, None)
print([info()[0] // MIB, second(), take(30 * MIB, cuda.cuMemAllocFromPoolAsync_ptsz, pool, None),
       cuda.cuMemFreeAsync(one, None), second(), cuda.cuMemPoolTrimTo(pool, c_size_t(0)), second(),
       cuda.cuMemPoolDestroy(pool), second()])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [64, 0, 2, 0, 0, 0, 64, 0, 64])

    def test_what_one_pool_keeps_serves_no_other(self):
        program = """
def pool():
    made = c_void_p()
    assert cuda.cuMemPoolCreate(byref(made), byref(Properties(1, 0, 1, 0))) == 0
    return made
def of(pool, bytes):
    return take(bytes, cuda.cuMemAllocFromPoolAsync, pool, None)
one, two = pool(), pool()
codes = [cuda.cuMemFreeAsync(of(pool, 20 * MIB), None) for pool in (one, two)]         # each keeps 32 MiB
three = of(one, 40 * MIB)                                # the other one makes way
print(codes + [type(three) is c_ulonglong, of(two, 20 * MIB), take(20 * MIB, cuda.cuMemAllocAsync, None),
               cuda.driver_peak(0) // MIB])
"""
        found, report = self.result(program, "64MiB")
        self.assertEqual(found, [0, 0, True, 2, 2, 64])
        self.assertIn(f"at most {64 << 20} bytes", report)

    def test_a_growth_beyond_the_cap_is_undone(self):
        program = """
one = take(20 * MIB, cuda.cuMemAllocAsync, None)
print([take(20 * MIB, cuda.cuMemAllocAsync, None), info()[0] // MIB, cuda.driver_used(0) // MIB,
       cuda.cuMemFreeAsync(one, None), take(48 * MIB, cuda.cuMemAllocAsync, None), cuda.driver_used(0)])
"""
        found, report = self.result(program, "48MiB")
        self.assertEqual(found, [2, 16, 32, 0, 2, 0])
        self.assertIn("2 refused", report)

    def test_a_destroyed_pool_is_charged_until_its_memory_is_freed(self):
        program = """
pool = c_void_p()
assert cuda.cuMemPoolCreate(byref(pool), byref(Properties(1, 0, 1, 0))) == 0
one = take(20 * MIB, cuda.cuMemAllocFromPoolAsync, pool, None)
print([cuda.cuMemPoolDestroy(pool), info()[0] // MIB, cuda.cuMemFreeAsync(one, None), info()[0] // MIB,
       cuda.driver_used(0)])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [0, 32, 0, 64, 0])

    def test_more_pools_than_are_followed(self):
        program = """
def pool():
    made = c_void_p()
    return cuda.cuMemPoolCreate(byref(made), byref(Properties(1, 0, 1, 0)))
codes = [pool() for _ in range(300)]
print([codes[0], codes[-1]])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [0, 2])
        self.assertEqual(self.result(program)[0], [0, 0])

    def test_a_stream_of_another_device(self):
        program = """
stream = c_void_p()
assert cuda.cuStreamCreate(byref(stream), 0) == 0
context(1)
one = take(40 * MIB, cuda.cuMemAllocAsync, stream)
frees = [info()[0] // MIB]
context(0)
print(frees + [info()[0] // MIB, take(MIB)])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [64, 0, 2])

    def test_what_a_capture_allocates_is_charged_at_the_launch(self):
        program = """
stream, graph = c_void_p(), c_void_p()
assert cuda.cuStreamCreate(byref(stream), 0) == 0
for turn in range(3):                                    # all but the last are dropped
    assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
    take(40 * MIB, cuda.cuMemAllocAsync, stream)
    assert cuda.cuStreamEndCapture(stream, byref(graph)) == 0
print([info()[0] // MIB, cuda.cuGraphLaunch(graph, stream), info()[0] // MIB])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [64, 0, 24])

    def test_what_graphs_keep_serves_no_pool(self):
        program = """
codes = [cuda.cuGraphLaunch(c_void_p(32 * MIB), None)]
one = take(40 * MIB, cuda.cuMemAllocAsync, None)
codes += [cuda.driver_peak(0) // MIB]
for turn in range(4):                                    # each beyond the cap, which the next one makes good
    codes.append(cuda.cuGraphLaunch(c_void_p(32 * MIB), None))
print(codes + [cuda.driver_peak(0) // MIB, type(one) is c_ulonglong, take(MIB, cuda.cuMemAllocAsync, None) == 2])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [0, 64, 0, 0, 0, 0, 96, True, False])

    def test_graphs(self):
        program = """
print([cuda.cuGraphLaunch(c_void_p(32 * MIB), None), info()[0] // MIB, type(take(48 * MIB)) is c_ulonglong,
       cuda.driver_peak(0) // MIB, cuda.cuGraphLaunch(c_void_p(16 * MIB), None), cuda.cuDeviceGraphMemTrim(0),
       info()[0] // MIB])
"""
        self.assertEqual(self.result(program, "64MiB")[0], [0, 32, True, 48, 0, 0, 16])

    def test_managed_memory_is_counted_and_not_capped(self):
        found, report = self.result(
            "one = take(64 * MIB, cuda.cuMemAllocManaged, 1); print(cuda.cuMemFree_v2(one), info()[0], sep=',')", "8MiB"
        )
        self.assertEqual(found, (0, 8 << 20))
        self.assertIn(f"managed {64 << 20}", report)

    def test_memory_ends_with_its_context(self):
        program = """
primary = take(2 * MIB)
own = c_void_p()
assert cuda.cuCtxCreate_v2(byref(own), 0, 0) == 0
take(4 * MIB); chunk = create(MIB); frees = [info()[0] // MIB]
assert cuda.cuCtxDestroy_v2(own) == 0
context(); frees.append(info()[0] // MIB)                # retained twice now
assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
frees.append(info()[0] // MIB)
assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
context(); frees.append(info()[0] // MIB); take(3 * MIB)
assert cuda.cuDevicePrimaryCtxReset_v2(0) == 0
context(); frees.append(info()[0] // MIB)
for end in (cuda.cuCtxDestroy, cuda.cuCtxDetach):        # older names
    assert cuda.cuCtxCreate_v2(byref(own), 0, 0) == 0
    take(4 * MIB)
    assert end(own) == 0
context(); frees.append(info()[0] // MIB); take(3 * MIB)
assert cuda.cuDevicePrimaryCtxReset(0) == 0
context(); frees.append(info()[0] // MIB); take(3 * MIB)
assert cuda.cuDevicePrimaryCtxRelease(0) == 0
context(); frees.append(info()[0] // MIB)
print(frees + [cuda.cuMemFree_v2(primary), cuda.driver_used(0) // MIB])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [1, 5, 5, 7, 7, 7, 7, 7, 1, 1])

    def test_free_and_total_are_the_caps(self):
        program = """
nvml = ctypes.CDLL(os.environ["GPUPOOL_LIBNVML"])
class Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]
memory, handle, total = Memory(), c_void_p(), c_size_t()
take(3 * MIB)
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, byref(memory)) == 0
assert cuda.cuDeviceTotalMem_v2(byref(total), 0) == 0
print([n // MIB for n in (*info(), total.value, memory.total, memory.free, memory.used)])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [5, 8, 8, 8, 5, 3])
        self.assertEqual(self.result(program)[0], [65533, 65536, 65536, 8192, 8192, 0])

    def test_coverage_is_checked(self):
        """NVML says at first that the process has 300 MiB, of its context, and at the end what `more` is above
        that and what the driver has given, by whichever door."""
        for take, given in (
            ("take(4 * MIB)", "memory 4"),
            ("take(4 * MIB); take(3 * MIB, cuda.cuMemAllocAsync, None)", "memory 4, pools 3"),
            ("one = take(40 * MIB, cuda.cuMemAllocAsync, None); cuda.cuMemFreeAsync(one, None)", "pools 40"),
            ("own(40 * MIB)", "pools 40"), ("one = create(6 * MIB); map(1 << 45, one, 6 * MIB)", "chunks 6"),
            ("one = create(6 * MIB); map(1 << 45, one, 6 * MIB); cuda.cuMemRelease(one); create(2 * MIB)", "chunks 8"),
            ("one = create(6 * MIB); cuda.cuMemRelease(one)", "chunks 6"), ("array(256, 256, 4)", "arrays 4"),
            ("cuda.cuGraphLaunch(c_void_p(32 * MIB), None)", None), ("launch_captured(24 * MIB)", None),
            ("take(64 * MIB, cuda.cuMemAllocManaged, 1)", "managed 64"),
            ("take(4 * MIB); own(3 * MIB); array(256, 256, 4); create(2 * MIB); launch_captured(MIB)",
             "memory 4, pools 3, chunks 2, arrays 4"),
        ):  # fmt: skip
            for more, part in ((0, None), (1, None), (50, f"; not covered: {50 << 20} bytes")):
                with self.subTest(take, more=more):
                    program = DOORS + f"says(300)\n{take}\nsays(300 + cuda.driver_used(0) // MIB + {more}); print(0)"
                    _, report = self.result(program, "1GiB")
                    told = re.search("given in all: ([^;]*)|$", report).group(1)
                    given_bytes = given and re.sub(r"\d+", lambda number: str(int(number.group()) << 20), given)
                    self.assertEqual(told, given_bytes)
                    self.assertNotIn("NVML does not say", report)
                    self.assertEqual(re.search("; not covered.*|$", report).group() or None, part)

    def test_coverage_of_a_process_that_nvml_does_not_list(self):
        """As in a container with process numbers of its own: at first, at the end, or ever."""
        other = "libc.setenv(b'FAKE_NVML_USERS', b'1:5', 1)"
        for first, last in ((other, other), (other, "says(304)"), ("says(300)", other)):
            with self.subTest(first=first, last=last):
                _, report = self.result(DOORS + f"{first}\ntake(4 * MIB)\n{last}; print(0)", "8MiB")
                self.assertTrue(report.endswith("; NVML does not say whether this is all"), report)
        _, report = self.result("take(MIB); print(0)", GPUPOOL_LIBNVML="/no/such/file")
        self.assertTrue(report.endswith("; NVML does not say whether this is all"), report)

    def test_a_cap_that_is_less_than_the_context(self):
        """Is said once for each device, when it is seen first; contexts are not counted, so the program goes on."""
        program = PRELUDE + DOORS + "says(300)\nprint(take(9 * MIB), type(take(8 * MIB)) is c_ulonglong)"
        words = f"a cap of {8 << 20} bytes is less than what the context takes, {300 << 20} bytes, "
        for cap, is_said in (("8MiB", True), ("300MiB", False), (None, False)):
            with self.subTest(cap):
                options = ["--cap", cap] if cap else []
                code, out, err = self.hooked(options, sys.executable, "-c", program)
                self.assertEqual(code, 0, err)
                self.assertEqual(err.count("than what the context takes"), is_said, err)
                if is_said:
                    self.assertEqual(out, "2 True\n")
                    self.assertIn(f"gpupool run: device 0: {words}which it does not count\n", err)
        self.assertNotIn("than what the context", self.hooked(["--cap", "8MiB"], sys.executable, "-c", PRELUDE)[2])

    def test_an_address_that_was_freed_unseen_is_charged_once(self):
        """An exempt library frees; the driver gives the address again."""
        program = """
one = take(4 * MIB)
cuda.driver_forget(one)
two = take(2 * MIB)
print([one.value == two.value, info()[0] // MIB])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [True, 6])

    def test_a_driver_that_the_program_closes(self):
        """It stays, with what it has given, so that the end of the program can ask it, and a second opening goes on."""
        program = """
import _ctypes
take(2 * MIB)
_ctypes.dlclose(cuda._handle)
cuda = ctypes.CDLL("libcuda.so.1")
context()
print([cuda.driver_used(0) // MIB, info()[0] // MIB, cuda.driver_used(0) // MIB])
_ctypes.dlclose(cuda._handle)
"""
        found, report = self.result(program, "8MiB")
        self.assertEqual(found, [2, 6, 2])
        self.assertIn(f"given in all: memory {2 << 20}", report)

    def test_the_pages_table_has_the_functions(self):
        source = (ROOT / "src/frameworks/audit/functions.hpp").read_text(encoding="utf-8")
        hooked = set(re.findall(r"^  X\((\w+),(?: \w*)?,? *\d*", source.split("GPUPOOL_CALLED")[0], re.M))
        page = (ROOT / "docs/run.md").read_text(encoding="utf-8").split("## Hooks")[1].split("\n## ")[0]
        self.assertGreater(len(hooked), 30)
        self.assertEqual(set(re.findall(r"`((?:cu|nvml)[A-Z]\w+)`", page.split("| what")[1])), hooked)


if __name__ == "__main__":
    unittest.main()
