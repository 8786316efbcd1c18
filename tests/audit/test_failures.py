#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What broke programs under hooks elsewhere; docs/run.md has the table. What the driver judges is compared: the
answers with the hooks are those without."""

import ast
import pathlib
import re
import subprocess
import sys
import unittest

from audited import COMMAND, PRELUDE, AuditTest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Calls each hooked function with arguments that are well but for one address that is missing, and with all of them
# if it is not to work at all; and with handles, addresses and devices that are not there.
BAD_CALLS = (
    PRELUDE.removesuffix("context()\n")
    + """
nvml = ctypes.CDLL(os.environ["GPUPOOL_LIBNVML"])
class Array(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_uint),
                ("channels", c_uint), ("flags", c_uint)]
out, more, size, no = byref(c_ulonglong()), byref(c_size_t()), c_size_t(100), c_ulonglong(0)
memory, chunk, array = (ctypes.create_string_buffer(256) for _ in range(3))
here, away, below = (byref(Properties(1, 0, 1, device)) for device in (0, 40, -1))
shape = byref(Array(16, 16, 1, 0x20, 1, 0))
pool, second = byref(c_void_p()), c_void_p()
LATE = (                    # with all of their arguments
    ("cuMemAlloc_v2", out, size), ("cuMemAllocPitch_v2", out, more, size, size, c_uint(4)),
    ("cuMemAllocManaged", out, size, c_uint(1)), ("cuMemAllocAsync", out, size, c_void_p()),
    ("cuMemAllocAsync_ptsz", out, size, c_void_p()), ("cuMemPoolCreate", pool, here),
    ("cuMemCreate", out, size, here, no), ("cuMemRetainAllocationHandle", out, c_void_p(4096)),
    ("cuArrayCreate_v2", out, shape),
    ("cuArray3DCreate_v2", out, shape), ("cuMipmappedArrayCreate", out, shape, c_uint(1)),
    ("cuMemGetInfo_v2", more, out), ("cuDeviceTotalMem_v2", more, c_int(0)),
    ("cuMemAllocFromPoolAsync", out, size, c_void_p(), c_void_p()),
    ("cuMemAllocFromPoolAsync_ptsz", out, size, c_void_p(), c_void_p()),
)
ABSENT = (
    ("cuMemFree_v2", no), ("cuMemFree_v2", c_ulonglong(4711)), ("cuMemFreeAsync", no, c_void_p()),
    ("cuMemFreeAsync_ptsz", c_ulonglong(4711), c_void_p()), ("cuMemPoolDestroy", None), ("cuMemPoolTrimTo", None, size),
    ("cuMemMap", no, size, c_size_t(0), no, no), ("cuMemUnmap", c_ulonglong(4096), size), ("cuMemRelease", no),
    ("cuMemCreate", out, size, away, no), ("cuMemCreate", out, c_size_t(1 << 40), away, no),
    ("cuMemCreate", out, size, below, no), ("cuArrayDestroy", None),
    ("cuMipmappedArrayDestroy", None), ("cuGraphLaunch", None, None), ("cuGraphLaunch_ptsz", None, None),
    ("cuDeviceGraphMemTrim", c_int(40)), ("cuDeviceTotalMem_v2", more, c_int(40)), ("cuCtxDestroy_v2", None),
    ("cuCtxDestroy", None), ("cuCtxDetach", None), ("cuDevicePrimaryCtxRelease_v2", c_int(40)),
    ("cuDevicePrimaryCtxRelease", c_int(-1)), ("cuDevicePrimaryCtxReset_v2", c_int(40)),
    ("cuDevicePrimaryCtxReset", c_int(-1)),
)
def variants(call):
    name, *words = call
    for at, word in enumerate(words):
        if not isinstance(word, ctypes._SimpleCData):
            yield name, *words[:at], None, *words[at + 1:]
def results(calls):
    return [(name, getattr(cuda, name)(*words)) for name, *words in calls]
def all_results(is_to_work):
    calls = [each for call in LATE for each in variants(call)] + list(ABSENT)
    return results(calls + ([] if is_to_work else list(LATE)))
handle = c_void_p()
found = [nvml.nvmlDeviceGetMemoryInfo(handle, memory), nvml.nvmlDeviceGetMemoryInfo_v2(handle, memory)]
found += [all_results(False)]                                    # before cuInit
assert cuda.cuInit(0) == 0
found += [all_results(True)]                                     # without a context
context()
found += [all_results(True)]
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0
found += [[get(which, to) for get in (nvml.nvmlDeviceGetMemoryInfo, nvml.nvmlDeviceGetMemoryInfo_v2)
           for which, to in ((None, memory), (handle, None))]]
address, status = c_void_p(), c_int(4711)
for name, to, version, flags in (
    (b"cuNoSuchFunction", byref(address), 13000, 0), (b"", byref(address), 0, 0),
    (b"cuMemAlloc", byref(address), 1000, 0), (b"cuMemAlloc_v2", byref(address), 13000, 0),
    (b"curl_easy_init", byref(address), 13000, 2),
    (None, byref(address), 13000, 0), (b"cuMemAlloc", None, 13000, 0),
):
    address.value, status.value = 4096, 4711
    result = cuda.cuGetProcAddress_v2(name, to, version, c_ulonglong(flags), byref(status))
    found += [(name, result, address.value, status.value, cuda.cuGetProcAddress(name, to, version, c_ulonglong(flags)))]
print(found)
"""
)

PER_THREAD = """
def address_of(name, flags, version=13000):
    found = c_void_p()
    assert cuda.cuGetProcAddress_v2(name, byref(found), version, c_ulonglong(flags), None) == 0
    return found.value
def exported(name):
    return ctypes.cast(getattr(cuda, name), c_void_p).value
names = ("cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuGraphLaunch")
same = [(address_of(name.encode(), 0) == exported(name), address_of(name.encode(), 2) == exported(name + "_ptsz"),
         exported(name) != exported(name + "_ptsz")) for name in names]
allocate = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p)(address_of(b"cuMemAllocAsync", 2))
one = c_ulonglong()
print([all(all(each) for each in same), allocate(byref(one), 5 * MIB, None), info()[0] // MIB])
"""

# Its names look like the driver's, and one is.
LOOK_ALIKE = """
int curl_easy_init(void) { return 41; }
int cublasCreate_v2(void** handle) { return handle == 0 ? 42 : 0; }
int cuMemAlloc_v2(unsigned long long* address, unsigned long bytes) { return (int)bytes + (address == 0 ? 43 : 0); }
"""


class FailuresTest(AuditTest):
    def test_what_the_driver_judges_it_judges(self):
        """Before cuInit, without a context, and with each address missing: HAMi-core 276 and 333."""
        code, plain, err = self.start(sys.executable, "-c", BAD_CALLS)
        self.assertEqual(code, 0, err)
        plain = ast.literal_eval(plain)
        self.assertEqual({result for _, result in plain[2]}, {3})
        self.assertNotIn(0, {result for name, result in plain[3] if name != "cuMemGetInfo_v2"})
        for cap in ([], ["--cap", "8MiB"]):
            with self.subTest(cap):
                code, out, err = self.hooked(cap, sys.executable, "-c", BAD_CALLS)
                self.assertEqual(code, 0, err)
                self.assertEqual(ast.literal_eval(out), plain)
                self.assertNotIn("device 40", err)  # of which there is nothing to report

    def test_what_came_before_cuinit_hides_nothing(self):
        """The pools that devices have from the beginning are known all the same."""
        program = """
pool = c_void_p()
assert cuda.cuDeviceGetDefaultMemPool(byref(pool), 0) == 0
one = take(4 * MIB, cuda.cuMemAllocFromPoolAsync, pool, None)
print([early, type(one) is c_ulonglong, info()[0] // MIB])
"""
        early = PRELUDE.removesuffix("context()\n") + "early = create(MIB)\ncontext()\n"
        code, out, err = self.hooked(["--cap", "64MiB"], sys.executable, "-c", early + program)
        self.assertEqual(code, 0, err)
        self.assertEqual(ast.literal_eval(out), [3, True, 32])

    def test_the_functions_of_a_stream_of_each_thread(self):
        """cuGetProcAddress with the flag 2 answers with functions that have _ptsz in their names: HAMi-core 233."""
        self.assertEqual(self.result(PER_THREAD, "64MiB")[0], [True, 0, 32])

    def test_look_alikes_of_other_libraries(self):
        """HAMi-core 215 and 326."""
        source = self.folder / "alike.c"
        source.write_text(LOOK_ALIKE, encoding="utf-8")
        library = self.folder / "libcurl.so.4"
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
        program = f"""
alike = ctypes.CDLL("{library}", mode=os.RTLD_GLOBAL | os.RTLD_NOW)
every = ctypes.CDLL(None)
print([alike.curl_easy_init(), every.curl_easy_init(), alike.cublasCreate_v2(None), alike.cuMemAlloc_v2(None, 1),
       every.cuMemAlloc_v2(None, 2), take(4 * MIB)])
"""
        self.assertEqual(self.result(program, "2MiB")[0], [41, 41, 42, 44, 45, 2])

    def test_a_child_after_cuinit_has_the_drivers_answers(self):
        """Its parent goes on as before."""
        program = """
one = take(2 * MIB)
reader, writer = os.pipe()
if os.fork() == 0:
    found = [take(MIB), cuda.cuMemFree_v2(one), create(MIB), take(MIB, cuda.cuMemAllocAsync, None), cuda.cuInit(0)]
    os.write(writer, repr(found).encode())
    sys.exit(0)                                                  # and reports nothing
code = os.wait()[1]
print([code, eval(os.read(reader, 1000)), info()[0] // MIB, cuda.cuMemFree_v2(one), info()[0] // MIB])
"""
        code, out, err = self.hooked(["--cap", "8MiB"], sys.executable, "-c", PRELUDE + program)
        self.assertEqual(code, 0, err)
        self.assertEqual(ast.literal_eval(out), [0, [3, 3, 3, 3, 3], 6, 0, 8])
        self.assertEqual(err.count("gpupool run: device"), 1, err)

    def test_forks_race_with_allocations(self):
        program = self.compile("forks.c")
        self.assertEqual(self.hooked(["--cap", "8MiB"], program)[:2], (0, "0\n"))

    def test_a_cleaned_environment(self):
        """What goes with the environment is gone with it, each by itself, and the program works."""
        path = f"LD_LIBRARY_PATH={self.environment['LD_LIBRARY_PATH']}"
        audit = f"LD_AUDIT={pathlib.Path(COMMAND).resolve().parent / 'libgpupool_audit.so'}"
        program = PRELUDE + "print(type(take(16 * MIB)) is c_ulonglong)"
        for kept, is_given, is_counted in (
            ([path], True, False), ([path, audit], True, True), ([path, "GPUPOOL_RUN_CAP=8388608"], True, False),
            ([path, audit, "GPUPOOL_RUN_CAP=8388608"], False, True),
        ):  # fmt: skip
            with self.subTest(kept):
                words = ["env", "-i", *kept, sys.executable, "-c", program]
                code, out, err = self.hooked(["--cap", "8MiB"], *words)
                self.assertEqual((code, out), (0, f"{is_given}\n"), err)
                self.assertEqual("gpupool run: device 0" in err, is_counted, err)

    def test_a_program_that_cleans_its_own_environment(self):
        program = """
ctypes.CDLL(None).clearenv()
print([take(9 * MIB), type(take(8 * MIB)) is c_ulonglong])
"""
        self.assertEqual(self.result(program, "8MiB")[0], [2, True])

    def test_all_descriptors_are_closed(self):
        """Before the first allocation, and before the end: none is needed, and none is taken for another file."""
        for first, when in ((0, "both"), (3, "early"), (0, "late")):
            with self.subTest(when, first=first):
                program = f"""
if {when != "late"}: os.closerange({first}, 256)
codes = [type(take(6 * MIB)) is c_ulonglong, take(6 * MIB), take(6 * MIB, cuda.cuMemAllocAsync, None)]
if {when != "early"}: os.closerange(0, 256)
ctypes.CDLL(None).exit(7 if codes == [True, 2, 2] else 8)
"""
                code, _, err = self.hooked(["--cap", "8MiB"], sys.executable, "-c", PRELUDE + program)
                self.assertEqual(code, 7, err)
                self.assertEqual("gpupool run: device 0" in err, when == "early", err)

    def test_no_signal_is_taken(self):
        program = (
            PRELUDE
            + """
libc, action = ctypes.CDLL(None), (ctypes.c_size_t * 32)()
def handlers():
    "0: by default, 1: ignored, 2: the program's, 3: there is no such signal."
    return [3 if libc.sigaction(number, None, action) != 0 else min(action[0], 2) for number in range(1, 65)]
codes = [type(take(6 * MIB)) is c_ulonglong, take(1 << 50)]
masks = [line for line in open("/proc/self/status").read().splitlines() if line.startswith("Sig")]
print([codes, handlers(), masks])
"""
        )
        plain = self.start(sys.executable, "-c", program)
        hooked = self.hooked(["--cap", "8MiB"], sys.executable, "-c", program)
        self.assertEqual((hooked[0], hooked[1]), (0, plain[1]), hooked[2])
        self.assertIn("2, 0", plain[1])  # it was looked at

    def test_nothing_waits_for_the_gpu(self):
        """A function of the driver is called only if the library has its name: those of its table, of which none
        waits, as vgpu-manager does after each cuMemAllocAsync."""
        table = (ROOT / "src/frameworks/audit/functions.hpp").read_text(encoding="utf-8")
        known = set(re.findall(r"\bX\((cu[A-Z]\w+)", table)) | set(re.findall(r"\bX\(\w+, (cu[A-Z]\w+)", table))
        library = pathlib.Path(COMMAND).resolve().parent / "libgpupool_audit.so"
        named = {name.decode() for name in re.findall(rb"(?<![\w])cu[A-Z]\w+(?=\0)", library.read_bytes())}
        self.assertGreaterEqual(named, known)
        self.assertEqual(named - known, set())
        self.assertEqual([name for name in named if re.search("Synchronize|Wait|Event|Query", name)], [])

    def test_nvml_answers_by_both_of_its_functions(self):
        program = """
nvml, handle = ctypes.CDLL(os.environ["GPUPOOL_LIBNVML"]), c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0
class Memory(ctypes.Structure):
    _fields_ = [("version", c_uint), *((name, c_ulonglong) for name in ("total", "reserved", "free", "used"))]
def ask(version):
    memory = Memory(version)
    code = nvml.nvmlDeviceGetMemoryInfo_v2(handle, byref(memory))
    return code, [n // MIB for n in (memory.total, memory.reserved, memory.free, memory.used)]
take(3 * MIB)
print([ask(ctypes.sizeof(Memory) | 2 << 24), ask(0)])
"""
        gpu = [8192, 512, 7680, 0]
        self.assertEqual(self.result(program)[0], [(0, gpu), (25, [0, 0, 0, 0])])
        capped, other = self.result(program, "8MiB")[0]
        self.assertEqual((capped, other), ((0, [8, 0, 5, 3]), (25, [0, 0, 0, 0])))
        self.assertEqual(sum(capped[1][1:]), capped[1][0])


if __name__ == "__main__":
    unittest.main()
