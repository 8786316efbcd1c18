#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupool top looks again and again while processes with pools come and go: what a look costs, that nothing grows, and
that what it remembers of one is never shown of another. GPUPOOL_TEST_LOOKS says how often it looks."""

import ctypes
import http.client
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from top_target import HOLDS_2_GIB, LIBRARY, TopTest

LOOKS = int(os.environ.get("GPUPOOL_TEST_LOOKS", "400"))
# Of these looks, the memory of the first few may still grow: for the most processes at once, for instance.
WARM = LOOKS // 4
MOST_GROWN = 256 << 10

# A child after another: each has a pool, lives up to 40 ms, and then ends or is killed.
COMES_AND_GOES = (
    LIBRARY
    + """
import random, signal
print("ready", flush=True)
os.close(1)
while os.getppid() == int(sys.argv[1]):
    child = os.fork()
    if child == 0:
        take(default_pool(), 1 << 20)
        time.sleep(random.uniform(0, 0.04))
        if random.random() < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    os.waitpid(child, 0)
"""
)

# Becomes another program once it is told to: without pools, or with one.
BECOMES = HOLDS_2_GIB.replace(
    "stay()",
    """
print("ready", flush=True)
sys.stdin.readline()
os.execv("/proc/self/exe", ["another", "-c", os.environ["NEXT"]])
""",
)
LOADS_ANOTHER_COPY = HOLDS_2_GIB.replace(
    "stay()",
    """
print("ready", flush=True)
sys.stdin.readline()
lib = ctypes.CDLL(os.environ["COPY"])
lib.gpupool_set_name(default_pool(), b"of the copy")
stay()
""",
)
LONGEST_TRUST = 20  # seconds, as docs/watch.md says


class Reader:
    """What the system says of gpupool top."""

    def __init__(self, pid):
        self.proc = Path("/proc") / str(pid)

    def field(self, file, name):
        for line in (self.proc / file).read_text(encoding="ascii").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise AssertionError(f"{file} has no {name}")

    def descriptors(self):
        """A look and its answer open some, and close them again."""
        counts = []
        for _ in range(20):
            counts.append(len(list((self.proc / "fd").iterdir())))
            time.sleep(0.005)
        return min(counts)

    def memory(self):
        """That it has to itself."""
        return self.field("smaps_rollup", "Private_Dirty") << 10

    def seconds(self):
        words = (self.proc / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Served(TopTest):
    def serve(self, *options):
        """Looks when it is asked to, so that each is counted."""
        top = self.start_top("--prometheus", "--listen", "127.0.0.1:0", *options, stderr=subprocess.PIPE)
        self.address = ("127.0.0.1", int(re.search(r"port (\d+)", top.stderr.readline())[1]))
        return Reader(top.pid)

    def metrics(self):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def look(self):
        """Which processes it sees."""
        return set(re.findall(r'^gpupool_live_bytes\{.*pid="(\d+)"', self.metrics(), re.MULTILINE))

    def shown(self, pid):
        """The names of a process's pools, and its program."""
        info = rf'^gpupool_pool_info\{{.*pid="{pid}".*name="(.*?)",.*command="(\S*?)[ "]'
        return re.findall(info, self.metrics(), re.MULTILINE)


class Remembered(Served):
    def test_a_process_that_becomes_another_program(self):
        for after, wanted in (("import sys; print('ready', flush=True); sys.stdin.read()", []),
                              (LIBRARY + HOLDS_2_GIB, [("after", "another")])):  # fmt: skip
            with self.subTest(wanted=wanted):
                process = self.start_pool(BECOMES, NEXT=after, POOL_NAME="after", name="before")
                self.serve("--pid", str(process.pid))
                self.assertEqual(self.shown(process.pid), [("after", "before")])
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "ready\n")
                self.assertEqual(self.shown(process.pid), wanted)

    def test_a_number_that_is_used_again(self):
        first = self.start_pool(POOL_NAME="first", name="one")
        self.serve("--pid", str(first.pid))
        self.assertEqual(self.shown(first.pid), [("first", "one")])
        first.kill()
        first.wait()
        ready = os.pipe()
        if self.fork_as(first.pid) == 0:
            os.dup2(ready[1], 1)
            os.execve(sys.executable, ["two", "-c", LIBRARY + HOLDS_2_GIB], self.environment | {"POOL_NAME": "second"})
        self.addCleanup(os.waitpid, first.pid, 0)
        self.addCleanup(os.kill, first.pid, signal.SIGKILL)
        os.close(ready[1])
        with open(ready[0], "rb") as told:
            self.assertEqual(told.readline(), b"ready\n")
        self.assertEqual(self.shown(first.pid), [("second", "two")])

    def fork_as(self, pid):
        """A child with this number."""
        number = (ctypes.c_int32 * 1)(pid)
        arguments = struct.pack("<10Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(number), 1)
        child = ctypes.CDLL(None, use_errno=True).syscall(435, arguments, len(arguments))  # clone3
        if child < 0:
            self.skipTest(f"no process may choose its number here: {os.strerror(ctypes.get_errno())}")
        return child

    def test_the_page_of_another_copy_of_the_library_is_seen_in_time(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        copy = shutil.copy(os.environ["GPUPOOL_LIBRARY"], folder.name)
        process = self.start_pool(LOADS_ANOTHER_COPY, COPY=copy, POOL_NAME="first")
        self.serve("--pid", str(process.pid))
        self.assertEqual([name for name, _ in self.shown(process.pid)], ["first"])
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "ready\n")
        deadline = time.monotonic() + LONGEST_TRUST
        while len(names := self.shown(process.pid)) == 1:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(sorted(name for name, _ in names), ["first", "of the copy"])


class Soak(Served):
    def test_a_known_process_is_read_four_times_in_a_look(self):
        """Its page's head, and three times the place of its pool; now and then its status and its command too."""
        holder = self.start_pool(HOLDS_2_GIB).pid
        reader = self.serve("--pid", str(holder))
        self.assertEqual(self.look(), {str(holder)})
        begun = time.monotonic()
        reads, size = reader.field("io", "syscr"), reader.field("io", "rchar")
        for _ in range(LOOKS):
            self.look()
        reads, size = reader.field("io", "syscr") - reads, reader.field("io", "rchar") - size
        print(f"{reads / LOOKS:.2f} reads and {size / LOOKS:.0f} bytes a process and look", file=sys.stderr)
        searches = 1 + int((time.monotonic() - begun) / (LONGEST_TRUST / 2))
        self.assertGreaterEqual(reads, 4 * LOOKS)
        self.assertLessEqual(reads, 4 * LOOKS + 2 * searches)
        self.assertLessEqual(size, (2 * 1024 + 2 * 4) * LOOKS + 2 * 4096 * searches)

    def grown_in_some_looks(self, reader):
        """By how many bytes its memory grows meanwhile."""
        memory, seconds = reader.memory(), reader.seconds()
        looks = [self.look() for _ in range(LOOKS)]
        grown, seconds = reader.memory() - memory, reader.seconds() - seconds
        processes = set().union(*looks)
        print(f"{len(looks)} looks at {len(processes)} processes, {sum(map(len, looks)) / len(looks):.1f} at a time: "
              f"{1e6 * seconds / len(looks):.0f} us of processor each; {memory >> 10} KiB, and {grown >> 10} KiB more "
              "afterwards", file=sys.stderr)
        self.assertGreater(len(processes), LOOKS // 20)
        return grown

    def test_nothing_grows_while_processes_come_and_go(self):
        reader = self.serve()
        for _ in range(4):
            self.start(COMES_AND_GOES, str(os.getpid()))
        for _ in range(WARM):
            self.look()
        descriptors = reader.descriptors()
        # Another test may begin ten thousand pools meanwhile, which this reader sees too: what leaks grows each time.
        grown = [self.grown_in_some_looks(reader)]
        while grown[-1] > MOST_GROWN and len(grown) < 4:
            grown.append(self.grown_in_some_looks(reader))
        self.assertEqual(reader.descriptors(), descriptors)
        self.assertLessEqual(grown[-1], MOST_GROWN, grown)
        left = [path.name for path in Path("/dev/shm").iterdir() if "gpupool-stats" in path.name]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
