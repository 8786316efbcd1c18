# SPDX-License-Identifier: Apache-2.0
"""What the tests of `gpupool run --hooks` share. QUICK_DRIVER is a stand-in called libcuda.so.1."""

import ast
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = os.environ["GPUPOOL_COMMAND"]
DRIVER = pathlib.Path(os.environ["QUICK_DRIVER"])
MIB = 1 << 20

# What programs in Python begin with: the driver, as ctypes finds it, and a context.
PRELUDE = """
import ctypes, os, sys
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
cuda.driver_used.restype = cuda.driver_peak.restype = c_ulonglong
MIB = 1 << 20

def context(device=0):
    found = c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(byref(found), device) == 0
    assert cuda.cuCtxSetCurrent(found) == 0

def take(bytes, function=cuda.cuMemAlloc_v2, *more):
    "An address, or an error's number."
    address = c_ulonglong()
    result = function(byref(address), c_size_t(bytes), *more)
    return result if result != 0 else address

def info():
    free, total = c_size_t(), c_size_t()
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
    return free.value, total.value

class Properties(ctypes.Structure):
    _fields_ = [("type", c_uint), ("handles", c_uint), ("location", c_uint), ("device", c_int), ("rest", c_uint * 32)]

def create(bytes, device=0):
    handle = c_ulonglong()
    result = cuda.cuMemCreate(byref(handle), c_size_t(bytes), byref(Properties(1, 0, 1, device)), c_ulonglong(0))
    return result if result != 0 else handle

def map(address, handle, bytes):
    assert cuda.cuMemMap(c_ulonglong(address), c_size_t(bytes), c_size_t(0), handle, c_ulonglong(0)) == 0

context()
"""


class AuditTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        version = platform.libc_ver()[1]
        if tuple(map(int, version.split("."))) < (2, 35):
            raise unittest.SkipTest(f"the hooks need glibc 2.35, and this is {version}")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool_audit_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        unwanted = ("LD_AUDIT", "CUDA_INJECTION64_PATH", "GPUPOOL_RUN_CAP")
        self.environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        self.environment |= {
            "LD_LIBRARY_PATH": str(DRIVER.parent), "GPUPOOL_LIBNVML": os.environ["FAKE_NVML"],
            "FAKE_NVML_ID": "GPU-00000000-0000-0000-0000-000000000000",
        }  # fmt: skip

    def compile(self, source, *options, name=None):
        program = self.folder / (name or pathlib.Path(source).stem)
        words = ["cc", "-O1", "-pthread", HERE / source, "-o", program, *options, "-ldl"]
        subprocess.run(words, check=True)
        return program

    def start(self, *words, **environment):
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=120, check=False,
            env=self.environment | environment,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def hooked(self, options, *words, **environment):
        return self.start(COMMAND, "run", "--hooks", *options, "--", *words, **environment)

    def result(self, program, cap=None, **environment):
        """What a program in Python prints under the hooks, evaluated, and the report of its device 0."""
        options = ["--cap", cap] if cap is not None else []
        code, out, err = self.hooked(options, sys.executable, "-c", PRELUDE + program, **environment)
        self.assertEqual(code, 0, err)
        reports = [line for line in err.splitlines() if line.startswith("gpupool run: device 0: ")]
        return ast.literal_eval(out), (reports or [""])[-1].removeprefix("gpupool run: device 0: ")
