#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings in programs that close descriptors, fork, have limits, or start and stop from several threads.
GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import os
import subprocess
import sys
import unittest

import test_watch
from test_full_disk import Events

# Without a recording that the environment asks for: each program starts its own.
PROLOGUE = test_watch.PROLOGUE + """
lib.gpupool_record_start.argtypes = [ctypes.c_char_p, ctypes.c_uint32]
lib.gpupool_malloc.restype = lib.gpupool_free.restype = ctypes.c_int32
folder = sys.argv[1]
def start(name="one.gpt"):
    return lib.gpupool_record_start(f"{folder}/{name}".encode(), 0)
def stop():
    return lib.gpupool_record_stop()
def descriptors(pid="self"):
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{number}").startswith(folder): found.append(int(number))
        except OSError: pass
    return found
def work(count):
    for i in range(count): free(malloc(512 * (1 + i % 90)))
"""


class RecordFaults(test_watch.Case):
    def run_program(self, program, *, prologue=PROLOGUE, environment=None, **options):
        words = [sys.executable, "-W", "ignore", "-c", prologue + program, self.folder]  # Python warns of forks
        done = subprocess.run(words, capture_output=True, check=False, text=True, timeout=300,
                              env=os.environ | (environment or {}), **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    # ---- descriptors

    def test_what_a_program_prints_without_standard_output_is_not_in_the_recording(self):
        self.run_program("""
os.close(1)
check(start())
sys.__stderr__.flush()
try: os.write(1, b"printed " * 1000)
except OSError: pass
work(1000)
check(stop())
""")
        status, text, said = test_watch.run("export", self.folder / "one.gpt")
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(sum(line[0] in "af" for line in text.splitlines()), 2000)

    def check_own_file(self, program):
        """A program closes the recording's descriptor, and has a file of its own under its number."""
        self.run_program("""
check(start())
taken, = descriptors()
os.close(taken)
mine = open(f"{folder}/mine", "w+b", buffering=0)
if mine.fileno() != taken: os.dup2(mine.fileno(), taken)
os.write(taken, b"mine " * 100000)
""" + program + """
assert os.fstat(taken).st_ino == os.stat(f"{folder}/mine").st_ino
os.write(taken, b"and more")
""")
        self.assertEqual((self.folder / "mine").read_bytes(), b"mine " * 100000 + b"and more")

    def test_a_recording_that_grows_leaves_a_file_under_its_number_alone(self):
        self.check_own_file("work(300000)")
        events = Events(self.folder / "one.gpt")
        self.assertGreater(events.lost, 1000)
        self.assertEqual(events.calls() + events.lost, 600000)

    def test_a_recording_that_ends_leaves_a_file_under_its_number_alone(self):
        self.check_own_file("check(stop())")

    def test_a_child_leaves_a_file_under_its_number_alone(self):
        self.check_own_file("""
child = os.fork()
if child == 0:
    try: os._exit(0 if os.fstat(taken).st_size == 500000 else 1)
    except OSError: os._exit(2)
assert os.waitpid(child, 0)[1] == 0
""")

    # ---- limits

    LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and other programs do not
resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, resource.RLIM_INFINITY))
"""
    ADDRESSES_ONLY = {"GPUPOOL_SIM": "data=0"}  # no file for the device's memory

    def test_a_limit_of_file_sizes_costs_events_and_not_the_program(self):
        self.run_program("work(300000); check(stop())", environment=self.ADDRESSES_ONLY,
                         prologue=self.LIMITED.replace("MOST", str(1 << 19)) + PROLOGUE + "check(start())\n")
        events = Events(self.folder / "one.gpt")
        self.assertGreater(events.lost, 1000)
        self.assertGreater(events.calls(), 50000)
        self.assertEqual(events.calls() + events.lost, 600000)

    def test_where_no_file_may_be_made_a_pool_works(self):
        limited = self.LIMITED.replace("MOST", "0")
        self.run_program("work(1000); assert start() == 1", environment=self.ADDRESSES_ONLY,
                         prologue=limited + PROLOGUE)
        self.run_program("assert lib.gpupool_malloc(pool, 512, 0, ctypes.byref(u64())) != 0",
                         prologue=limited + PROLOGUE)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_recordings_that_have_ended_leave_the_program_its_addresses(self):
        """One after the other, in a program that may have so many and needs some itself."""
        self.run_program("""
import mmap, resource
GIB = 1 << 30
resource.setrlimit(resource.RLIMIT_AS, (24 * GIB, resource.RLIM_INFINITY))
for number in range(10):
    check(start(f"{number}.gpt"))
    work(1000)
    check(stop())
mmap.mmap(-1, 20 * GIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()
""", environment=self.ADDRESSES_ONLY)

    # ---- several threads

    def test_a_recording_that_begins_while_one_ends_has_all_live_blocks(self):
        """Another thread starts it as soon as it may, while the first still looks through many blocks."""
        self.run_program("""
lib.gpupool_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
pools = [pool] + [ctypes.c_void_p() for _ in range(3)]
for each in pools[1:]: check(lib.gpupool_create(None, ctypes.byref(each)))
def take_in(each, count):
    address = u64()
    for _ in range(count): check(lib.gpupool_malloc(each, 512, 0, ctypes.byref(address)))
def start_soon():
    while start("two.gpt") != 0: pass
check(start())
take_in(pools[0], 300000)
for each in pools[1:]: take_in(each, 100)
thread = threading.Thread(target=start_soon)
thread.start()
check(stop())
thread.join()
check(stop())
""", environment=self.ADDRESSES_ONLY)
        self.assertEqual(Events(self.folder / "one.gpt").count[Events.MALLOC], 300300)
        self.assertEqual(Events(self.folder / "two.gpt").count[8], 300300)

    def test_a_child_of_fork_keeps_nothing_of_a_recording_that_starts_or_stops_meanwhile(self):
        self.run_program("""
def record_often():
    for number in range(150):
        check(start(f"{number}.gpt"))
        check(stop())
thread = threading.Thread(target=record_often)
thread.start()
forks = 0
while thread.is_alive():
    child = os.fork()
    if child == 0:
        os._exit(len(descriptors()) + (folder in open("/proc/self/maps").read()))
    assert os.waitpid(child, 0)[1] == 0
    forks += 1
assert forks > 10, forks
""")


if __name__ == "__main__":
    unittest.main()
