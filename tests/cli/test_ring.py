#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings that keep the newest events. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import os
import subprocess
import sys
import unittest

import test_watch
from command import run
from test_full_disk import Events

PROLOGUE = test_watch.PROLOGUE + """
lib.gpupool_malloc.restype = lib.gpupool_free.restype = ctypes.c_int32
def fill():
    for _ in range(2200): mark("m" * 250)
    free(malloc(512))
"""
FAIL = """
check(lib.gpupool_set_limit(pool, ctypes.c_uint64(16 << 20)))
assert lib.gpupool_malloc(pool, 64 << 20, 0, ctypes.byref(u64())) != 0
"""


class Ring(test_watch.Case):
    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def read(self, name):
        """The kinds of events in a packed recording's text, which is also whole: no free of what is not there."""
        status, text, said = run("export", self.folder / name)
        self.assertEqual((status, said), (0, ""))
        live = set()
        for line in text.splitlines():
            words = line.split()
            if words[0] == "a":
                live.add(words[1])
            elif words[0] == "f":
                live.remove(words[1])
        return text

    def run_program(self, program, last="1MiB"):
        words = [sys.executable, "-W", "ignore", "-c", PROLOGUE + program]  # Python warns of forks
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, cwd=self.folder,
                              env=os.environ | {"GPUPOOL_RECORD": f"ring.gpt,last={last}"})

    def test_the_command_packs_each_file_of_a_ring(self):
        path = self.folder / "ring.gpt"
        program = "keep = malloc(4096)\n" + FAIL + "for step in range(5): fill()\nmark('the end')\n"
        status, _, said = run("record", "-o", path, "--last", "1MiB", "--", sys.executable, "-c", PROLOGUE + program)
        self.assertEqual(status, 0, said)
        self.assertEqual(self.names(), ["ring.gpt", "ring.gpt.old", "ring.gpt.oom"])
        for name in self.names():
            self.assertIn(f"are in {self.folder / name} (", said)
        self.assertIn("#m the end", self.read("ring.gpt"))
        for name in ("ring.gpt", "ring.gpt.old"):
            self.assertIn("a 1 4096 0", self.read(name))
        self.assertIn("a 1 4096 0", self.read("ring.gpt.oom"))
        self.assertNotIn("#m m", self.read("ring.gpt.oom"))

    def test_the_command_refuses_a_bad_value_before_the_program_runs(self):
        for value, why in (("10m", "which may be a time or a size: write 10min or 10MiB"), ("1KiB", "less than 1MiB"),
                           ("soon", "not a size such as 512MiB or a time such as 10min")):
            status, text, said = run("record", "--last", value, "--", "echo", "runs")
            self.assertEqual((status, text), (2, ""))
            self.assertIn(f'--last is "{value}", {why}', said)
        (self.folder / "there.gpt.old").touch()
        status, _, said = run("record", "-o", self.folder / "there.gpt", "--last", "1MiB", "--", "echo")
        self.assertEqual(status, 2)
        self.assertIn("there.gpt.old is there already", said)
        self.assertEqual(self.names(), ["there.gpt.old"])

    def test_the_environment_asks_for_a_ring(self):
        done = self.run_program("for step in range(3): fill()")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.names(), ["ring.gpt", "ring.gpt.old"])
        self.assertGreater(Events(self.folder / "ring.gpt.old").count[Events.MARK], 1500)

    def test_a_value_that_is_none_costs_the_recording_and_not_the_program(self):
        done = self.run_program("print('works')", last="much")
        self.assertEqual((done.returncode, done.stdout), (0, "works\n"))
        self.assertEqual(done.stderr, 'gpupool: last is "much", not a size such as 512MiB or a time such as 10min\n')
        self.assertEqual(self.names(), [])

    def test_children_of_fork_are_not_recorded_while_files_make_way(self):
        done = self.run_program("""
def fill_often():
    for _ in range(60): fill()
thread = threading.Thread(target=fill_often)
thread.start()
forks = 0
while thread.is_alive():
    child = os.fork()
    if child == 0: os._exit("ring.gpt" in open("/proc/self/maps").read())
    assert os.waitpid(child, 0)[1] == 0
    forks += 1
assert forks > 5, forks
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.names(), ["ring.gpt", "ring.gpt.old"])
        self.assertEqual(Events(self.folder / "ring.gpt.old").lost, 0)

    def test_a_process_is_recorded_in_a_ring_from_outside(self):
        process = subprocess.Popen([sys.executable, "-c", PROLOGUE + "print('is up', flush=True)\n"
                                    "while True:\n  fill()\n  time.sleep(0.02)"], stdout=subprocess.PIPE, text=True,
                                   env=os.environ | {"GPUPOOL_CONTROL": "1"})
        try:
            process.stdout.readline()
            status, _, said = run("record", "--pid", str(process.pid), "--seconds", "1.5", "--last", "1MiB", "-o",
                                  self.folder / "it.gpt")
            self.assertEqual(status, 0, said)
        finally:
            process.kill()
            process.communicate()
        self.assertEqual(self.names(), ["it.gpt", "it.gpt.old"])
        self.read("it.gpt.old")


if __name__ == "__main__":
    unittest.main()
