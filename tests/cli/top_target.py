# SPDX-License-Identifier: Apache-2.0
"""Processes with pools, and gpupool top, which looks at them. Uses GPUPOOL_COMMAND and GPUPOOL_LIBRARY."""

import json
import os
import subprocess
import sys
import unittest

COMMAND = os.environ["GPUPOOL_COMMAND"]
MIB = 1 << 20
GIB = 1 << 30

# What every program here begins with.
LIBRARY = """
import ctypes, os, sys, time
lib = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
lib.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
lib.gpupool_free.argtypes = [ctypes.c_void_p, u64, u64]
lib.gpupool_empty.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
lib.gpupool_set_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
def default_pool():
    pool = ctypes.c_void_p()
    assert lib.gpupool_default_pool(0, ctypes.byref(pool)) == 0
    return pool
def take(pool, size):
    block = u64()
    assert lib.gpupool_malloc(pool, size, 0, ctypes.byref(block)) == 0
    return block
def stay():
    print("ready", flush=True)
    sys.stdin.read()
"""

HOLDS_2_GIB = """
pool = default_pool()
lib.gpupool_set_name(pool, os.environ.get("POOL_NAME", "").encode("utf-8", "surrogateescape"))
lib.gpupool_tag_push(b"kv cache")
take(pool, 2 << 30)
lib.gpupool_tag_pop()
stay()
"""

class TopTest(unittest.TestCase):
    def setUp(self):
        self.environment = os.environ | {
            "GPUPOOL_BACKEND": "sim",
            "GPUPOOL_SIM": "capacity=8GiB,data=0",
            "GPUPOOL_LIBNVML": "/nonexistent/libnvidia-ml.so.1",
        }
        for variable in ("GPUPOOL_SHARE", "GPUPOOL_STATS", "COLUMNS"):
            self.environment.pop(variable, None)

    def start(self, program, *arguments, name=None, pass_fds=(), **environment):
        process = subprocess.Popen(
            [name or sys.executable, "-c", program, *arguments],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
            env=self.environment | environment,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def start_pool(self, program=HOLDS_2_GIB, **options):
        return self.start(LIBRARY + program, **options)

    def start_top(self, *arguments, **pipes):
        """One that runs on, until the test ends; the pipes are its streams to read."""
        top = subprocess.Popen([COMMAND, "top", *arguments], text=True, env=self.environment, **pipes)
        for name in pipes:
            self.addCleanup(getattr(top, name).close)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        return top

    def run_top(self, *arguments, **environment):
        done = subprocess.run(
            [COMMAND, "top", "--once", *arguments],
            capture_output=True,
            timeout=120,
            check=False,
            env=self.environment | environment,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def objects(self, *arguments, **environment):
        """What --json says: the lines of GPUs, and those of processes by their number."""
        code, out, err = self.run_top("--json", *arguments, **environment)
        self.assertEqual((code, err), (0, ""))
        lines = [json.loads(line) for line in out.splitlines()]
        return [line for line in lines if "gpu" in line], {line["pid"]: line for line in lines if "pid" in line}

    def seen(self, process, **environment):
        return self.objects("--pid", str(process.pid), **environment)[1].get(process.pid)

    def table(self, process, **environment):
        code, out, err = self.run_top("--pid", str(process.pid), **environment)
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()
