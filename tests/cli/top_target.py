# SPDX-License-Identifier: Apache-2.0
"""Processes with pools, and gpupool top, which looks at them. Uses GPUPOOL_COMMAND and GPUPOOL_LIBRARY."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
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


class TerminalTest(TopTest):
    """gpupool top on a terminal of its own."""

    ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h"
    LEAVE = b"\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[?1049l"

    def open_top(self, columns=100, lines=24, program=HOLDS_2_GIB, cwd=None, **environment):
        self.process = self.start_pool(program, POOL_NAME="weights", **environment)
        self.start_top(columns, lines, cwd, environment)

    def start_top(self, columns, lines, cwd, environment, options=None):
        options = options or ("--pid", str(self.process.pid), "--interval", "0.2")
        try:
            self.terminal, inner = pty.openpty()
        except OSError as error:  # a chroot without /dev/pts
            self.skipTest(str(error))
        self.addCleanup(os.close, self.terminal)
        self.resize(columns, lines)
        self.before = termios.tcgetattr(inner)
        self.addCleanup(os.close, inner)
        self.inner = inner
        self.top = subprocess.Popen(
            ["setsid", "--ctty", COMMAND, "top", *options],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=cwd,
            env=self.environment | {"TERM": "xterm"} | environment,
        )
        self.addCleanup(self.top.wait)
        self.addCleanup(self.top.kill)

    def resize(self, columns, lines):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, wanted, seconds=120):
        """At least what is there now."""
        text = b""
        deadline = time.monotonic() + seconds
        while wanted not in text or not text:
            ready, _, _ = select.select([self.terminal], [], [], deadline - time.monotonic())
            self.assertTrue(ready, text[-500:])
            text += os.read(self.terminal, 65536)
        return text

    def assert_left_as_it_was(self):
        self.read_until(self.LEAVE)
        self.assertEqual(self.top.wait(120), 0)
        self.assertEqual(termios.tcgetattr(self.inner), self.before)

    def frame(self):
        """The next whole one, line by line."""
        text = b""
        while not (whole := re.search(rb"\x1b\[H(.*?)\x1b\[J", text, re.DOTALL)):
            text += self.read_until(b"")
        return re.sub(r"\x1b\[[0-9?]*[a-zA-Z]|\r", "", whole[1].decode()).split("\n")

    def press(self, keys, wanted):
        """Presses keys, and reads until that is shown."""
        os.write(self.terminal, keys)
        return self.read_until(wanted)

    def mouse(self, button, line, end="M"):
        return f"\x1b[<{button};5;{line}{end}".encode()

    def marked(self, keys, wanted):
        """Presses keys; the one row that is marked then, among those that are seen.

        A frame that was drawn before the keys came may already say what is waited for.
        """
        self.press(keys, wanted)
        for _ in range(5):
            rows = [line for line in self.frame() if line.startswith("> ")]
            if rows:
                break
        self.assertEqual(len(rows), 1)
        return rows[0]
