#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupool top looks again and again while processes with pools come and go: what a look costs, and that nothing grows.
GPUPOOL_TEST_LOOKS says how often it looks."""

import http.client
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

from top_target import HOLDS_2_GIB, LIBRARY, TopTest

LOOKS = int(os.environ.get("GPUPOOL_TEST_LOOKS", "400"))
# Of these looks, the memory of the first few may still grow: for the most processes at once, for instance.
WARM = LOOKS // 4

# A child after another: each has a pool, lives up to 40 ms, and then ends or is killed.
COMES_AND_GOES = LIBRARY + """
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


class Soak(TopTest):
    def serve(self, *options):
        """Looks when it is asked to, so that each is counted."""
        top = self.start_top("--prometheus", "--listen", "127.0.0.1:0", *options, stderr=subprocess.PIPE)
        self.address = ("127.0.0.1", int(re.search(r"port (\d+)", top.stderr.readline())[1]))
        return Reader(top.pid)

    def look(self):
        """Which processes it sees."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return set(re.findall(r'^gpupool_live_bytes\{.*pid="(\d+)"', text, re.MULTILINE))

    def test_a_process_is_read_six_times_in_a_look(self):
        """Its status, its command, its page's head, and three times the place of its pool."""
        holder = self.start_pool(HOLDS_2_GIB).pid
        reader = self.serve("--pid", str(holder))
        self.assertEqual(self.look(), {str(holder)})
        reads, size = reader.field("io", "syscr"), reader.field("io", "rchar")
        for _ in range(LOOKS):
            self.look()
        reads, size = reader.field("io", "syscr") - reads, reader.field("io", "rchar") - size
        print(f"{reads / LOOKS:.2f} reads and {size / LOOKS:.0f} bytes a process and look", file=sys.stderr)
        self.assertEqual(reads, 6 * LOOKS)
        self.assertLessEqual(size, (2 * 1024 + 2 * 4 + 2 * 4096) * LOOKS)

    def test_nothing_grows_while_processes_come_and_go(self):
        reader = self.serve()
        for _ in range(4):
            self.start(COMES_AND_GOES, str(os.getpid()))
        for _ in range(WARM):
            self.look()
        descriptors, memory, seconds = reader.descriptors(), reader.memory(), reader.seconds()
        looks = [self.look() for _ in range(LOOKS)]
        processes = set().union(*looks)
        print(f"{len(looks)} looks at {len(processes)} processes, {sum(map(len, looks)) / len(looks):.1f} at a time: "
              f"{1e6 * (reader.seconds() - seconds) / len(looks):.0f} us of processor each; {descriptors} "
              f"descriptors; {memory >> 10} KiB, and {(reader.memory() - memory) >> 10} KiB more afterwards",
              file=sys.stderr)
        self.assertGreater(len(processes), LOOKS // 20)
        self.assertEqual(reader.descriptors(), descriptors)
        self.assertLessEqual(reader.memory(), memory + (256 << 10))
        left = [path.name for path in Path("/dev/shm").iterdir() if "gpupool-stats" in path.name]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
