#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupool top on a terminal: what it draws, and its keys. Uses GPUPOOL_COMMAND and GPUPOOL_LIBRARY."""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import termios
import time
import unittest

from top_target import COMMAND, TerminalTest

FREES_1_GIB = """
pool = default_pool()
lib.gpupool_set_name(pool, b"weights")
lib.gpupool_free(pool, take(pool, 1 << 30), 0)
stay()
"""


THIRTY_POOLS = """
lib.gpupool_set_name(default_pool(), b"weights")
for number in range(30):
    pool = ctypes.c_void_p()
    assert lib.gpupool_create(None, ctypes.byref(pool)) == 0
    lib.gpupool_set_name(pool, b"of%d" % number)
    take(pool, 1 << 20)
stay()
"""


# The children end with their parent.
MANY_PROCESSES = """
count, done = int(os.environ["COUNT"]), os.pipe()
for number in range(count):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)
        for number in range(10):
            pool = ctypes.c_void_p()
            assert lib.gpupool_create(None, ctypes.byref(pool)) == 0
            take(pool, 1 << 20)
        os.write(done[1], b"x")
        time.sleep(3600)
for number in range(count):
    assert os.read(done[0], 1) == b"x"
stay()
"""
PROCESSES = int(os.environ.get("GPUPOOL_TEST_PROCESSES", "50"))
MOST_SHARE = 0.05  # of a core, for 1,000 processes looked at once a second


class OnATerminal(TerminalTest):
    def test_it_is_drawn_again_and_q_leaves(self):
        self.open_top()
        text = self.read_until(b"MISSES/S")
        self.assertTrue(text.startswith(self.ENTER))
        self.assertIn(b"weights", text)
        self.assertFalse(termios.tcgetattr(self.inner)[3] & termios.ECHO)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_ctrl_c_and_signals_leave_the_terminal_as_it_was(self):
        for leave in (
            lambda: os.write(self.terminal, b"\x03"),
            lambda: self.top.send_signal(signal.SIGTERM),
            lambda: self.top.send_signal(signal.SIGHUP),
        ):
            self.open_top()
            self.read_until(b"weights")
            leave()
            self.assert_left_as_it_was()

    def test_a_crash_leaves_the_terminal_as_it_was(self):
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))  # no file is wanted of it
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, limits)
        for crash in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
            with self.subTest(crash.name):
                self.open_top()
                self.read_until(b"weights")
                self.top.send_signal(crash)
                self.assertEqual(self.top.wait(120), -crash)
                self.read_until(self.LEAVE, seconds=5)
                self.assertEqual(termios.tcgetattr(self.inner), self.before)

    def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(self):
        self.open_top()
        self.read_until(b"weights")
        os.write(self.terminal, b"\x1a")
        self.read_until(self.LEAVE)
        self.assertTrue(os.WIFSTOPPED(os.waitpid(self.top.pid, os.WUNTRACED)[1]))
        self.assertEqual(termios.tcgetattr(self.inner), self.before)
        self.top.send_signal(signal.SIGCONT)
        self.read_until(self.ENTER)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_a_narrow_terminal_has_fewer_columns(self):
        self.open_top(columns=48, lines=3)
        self.read_until(b"RESERVED")
        frame = self.read_until(b"\x1b[J")
        self.resize(200, 24)
        wide = self.read_until(b"PENDING")
        self.assertIn(b"PENDING", wide)
        for line in re.split(rb"\r\n|\x1b\[H", frame):
            self.assertLessEqual(len(re.sub(rb"\x1b\[[0-9?]*[a-zA-Z]|\r", b"", line)), 48, line)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_thirty_pools_on_terminals_of_two_sizes(self):
        for columns, lines in ((80, 24), (200, 50)):
            with self.subTest(columns=columns, lines=lines):
                self.open_top(columns, lines, program=THIRTY_POOLS)
                self.read_until(b"STEALS/S" if columns == 200 else b"RESERVED")
                shown = self.frame()
                self.assertLessEqual(max(map(len, shown)), columns)
                self.assertIn("1 process, 31 pools: 30 MiB live", shown[0])
                titles = shown[1].split()
                self.assertLessEqual({"PID", "POOL", "DEVICE", "LIVE", "RESERVED", "AGE", "COMMAND"}, set(titles))
                self.assertEqual({"USER", "MISSES/S", "DRIVER/S"} <= set(titles), columns == 200)
                pools = [line.split()[titles.index("POOL")] for line in shown[2:] if str(self.process.pid) in line]
                if lines == 24:  # two lines above the pools, and one below
                    self.assertEqual((len(shown), len(pools), shown[-1]), (24, 21, "pools 1 to 21 of 31; h for help"))
                else:
                    self.assertEqual((len(shown), len(pools)), (33, 31))
                self.assertLessEqual(set(pools), {"weights", *(f"of{number}" for number in range(30))})
                self.resize(columns, 10)
                self.read_until(b"pools 1 to 7 of 31")
                os.write(self.terminal, b"q")
                self.assert_left_as_it_was()

    def test_the_mark_stays_in_view_wherever_it_goes(self):
        self.open_top(80, 12, program=THIRTY_POOLS, GPUPOOL_CONTROL="1")
        self.read_until(b"pools 1 to 9 of 31")
        first = self.marked(b"j", b"pools 1 to 8 of 31")  # a line says what the keys do
        self.assertNotEqual(self.marked(b"\x1b[6~", b"pools 2 to 9 of 31"), first)
        self.marked(b"\x1b[6~", b"pools 10 to 17 of 31")
        self.marked(b"\x06", b"pools 18 to 25 of 31")
        self.marked(b"\x1b[5~\x02", b"pools 9 to 16 of 31")
        last = self.marked(b"\x1b[F", b"pools 24 to 31 of 31")
        for keys in (b"j", b"\x1b[6~", b"G", b"\x1bOF", b"\x1b[4~"):
            self.assertEqual(self.marked(keys, b"pools 24 to 31 of 31").split()[3], last.split()[3])
        for keys in (b"\x1b[H", b"gk", b"\x1bOH", b"G\x1b[1~"):
            self.assertEqual(self.marked(keys, b"pools 1 to 8 of 31").split()[3], first.split()[3])
        name = first.split()[3]
        for _ in range(12):
            name = self.marked(b"j", b"of 31").split()[3]
        self.press(b"e", f" ({name}) of {self.process.pid} (".encode())
        self.press(b"h", b"any key goes back")
        self.press(b"y", b"e trims")  # help took the question back
        self.press(b"?", b"any key goes back")
        self.assertLessEqual(max(map(len, self.frame())), 80)
        self.press(b"\x1b[A", b"of 31")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def pool_in(self, line):
        """The name in a line of the screen, of which the first is 1."""
        return self.frame()[line - 1].removeprefix("> ").split()[2]

    def test_a_click_marks_a_pool_and_the_wheel_scrolls(self):
        self.open_top(80, 12, program=THIRTY_POOLS, GPUPOOL_CONTROL="1")
        self.read_until(b"pools 1 to 9 of 31")
        self.press(self.mouse(65, 1), b"pools 4 to 12 of 31")
        self.press(self.mouse(65, 1) * 20, b"pools 23 to 31 of 31")
        self.press(self.mouse(64, 1), b"pools 20 to 28 of 31")
        third = self.pool_in(5)
        self.assertIn(f" {third} ", self.marked(self.mouse(0, 5) + self.mouse(0, 5, "m"), b"e trims"))
        fourth = self.pool_in(7)  # the line that says what keys do came in above
        self.press(b"e", b"has cached? y")
        self.assertIn(f" {fourth} ", self.marked(self.mouse(0, 7), b"e trims"))
        # Other lines have no pool, other buttons no meaning, and old reports of the mouse are no keys.
        for nothing in (self.mouse(0, 1), self.mouse(0, 3), self.mouse(0, 12), self.mouse(0, 99), self.mouse(2, 4),
                        b"\x1b[<M", b"\x1b[<0;5;M", b"\x1bOM", b"\x1b[Meyq"):  # fmt: skip
            self.assertIn(f" {fourth} ", self.marked(nothing, b"e trims"))
        self.assertIn(f" {fourth} ", self.marked(self.mouse(65, 1), b"pools 23 to 30 of 31"))
        self.assertNotIn(f" {fourth} ", self.marked(self.mouse(64, 1) * 20, b"pools 1 to 8 of 31"))
        self.press(b"h", b"any key goes back")
        self.press(self.mouse(0, 5), b"pools 1 to 8 of 31")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_many_processes_cost_little(self):
        self.process = self.start_pool(MANY_PROCESSES, COUNT=str(PROCESSES))
        self.start_top(120, 40, None, {}, ("--interval", "1"))
        self.read_until(b"STEALS/S")
        self.press(b"G", b" of ")  # whatever is last: it may be another test's, and end

        def used():
            fields = pathlib.Path(f"/proc/{self.top.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before, begin = used(), time.monotonic()
        while time.monotonic() < begin + 10:
            self.frame()
        share = (used() - before) / (time.monotonic() - begin)
        print(f"{PROCESSES} processes of 10 pools take {100 * share:.2f} % of a core", flush=True)
        self.assertLessEqual(share, MOST_SHARE)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_a_text_is_typed_and_the_order_is_turned(self):
        self.open_top(columns=200)
        self.read_until(b"weights")
        os.write(self.terminal, b"/q no such")
        self.read_until(b"only /q no such_")  # q is a letter here
        os.write(self.terminal, b"\x7f\x7f\r")
        self.read_until(b"no pool that was asked for")
        self.read_until(b"only /q no su\x1b")
        os.write(self.terminal, b"\x1b")
        self.read_until(b"weights")
        os.write(self.terminal, b"/weig\r>>")
        self.read_until(b"by cached, only /weig\x1b")
        os.write(self.terminal, b"<<<")
        self.read_until(b"by name, only /weig\x1b")
        self.read_until(b"weights")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def open_with_control(self, **environment):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.open_top(columns=200, program=FREES_1_GIB, cwd=self.folder, **environment)
        self.read_until(b"weights")

    def assert_recording_reads(self):
        (recording,) = self.folder.glob("gpupool.*.gpt")
        done = subprocess.run([COMMAND, "leaks", recording], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_pool_is_marked_and_trimmed_once_that_is_confirmed(self):
        self.open_with_control(GPUPOOL_CONTROL="1")
        pid = str(self.process.pid).encode()
        os.write(self.terminal, b"e")  # nothing is marked
        self.press(b"j", pid + b": e trims")
        self.read_until(b"\r\n> ")
        self.press(b"e", b"has cached? y")
        self.press(b"n", pid + b": e trims")
        self.press(b"ey", b"has cached? y")  # pasted: nobody has read the question
        self.press(b"y", pid + b": 1 GiB given back")
        self.press(b"\x1b[A", pid + b": e trims")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_a_snapshot_and_a_recording_are_written(self):
        self.open_with_control(GPUPOOL_CONTROL="1")
        self.press(b"ks", b"its blocks are in")
        (snapshot,) = self.folder.glob("gpupool.*.jsonl")
        self.assertEqual(json.loads(snapshot.read_text())["pid"], self.process.pid)
        self.press(b"r", b"recording to")
        self.press(b"r", b"the recording is in")
        (recording,) = self.folder.glob("gpupool.*.gpt")
        recording.unlink()
        self.press(b"r", b"recording to")
        os.write(self.terminal, b"q")
        self.read_until(b"the recording is in")
        self.assertEqual(self.top.wait(120), 0)
        self.assert_recording_reads()
        self.assertEqual(sorted(self.folder.glob(".*")), [])

    def test_where_no_file_can_be_written_it_says_so_and_goes_on(self):
        self.open_top(columns=200, program=FREES_1_GIB, cwd="/proc", GPUPOOL_CONTROL="1")  # not even by root
        self.read_until(b"weights")
        self.press(b"js", b"cannot be written")
        self.press(b"kjr", b"nothing can be written to /proc")
        self.press(b"kje", b"has cached? y")
        self.press(b"y", b"1 GiB given back")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_two_of_them_record_one_process_in_turn(self):
        self.open_with_control(GPUPOOL_CONTROL="1")
        first = self.terminal, self.inner, self.top, self.before
        self.press(b"jr", b"recording to")
        self.start_top(200, 24, self.folder, {})
        self.read_until(b"weights")
        self.press(b"jr", b"already")
        second = self.terminal, self.inner, self.top, self.before
        self.terminal, self.inner, self.top, self.before = first
        self.press(b"r", b"the recording is in")
        self.assertEqual(len(list(self.folder.glob("gpupool.*.gpt"))), 1)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()
        self.terminal, self.inner, self.top, self.before = second
        self.press(b"r", b"recording to")
        self.press(b"r", b"the recording is in")
        self.assertEqual(len(list(self.folder.glob("gpupool.*.gpt"))), 2)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_a_process_that_is_killed_is_recorded_up_to_then(self):
        self.open_with_control(GPUPOOL_CONTROL="1")
        self.press(b"jr", b"recording to")
        self.process.kill()
        self.read_until(b"no process that this one may look into")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()
        self.assert_recording_reads()

    def test_files_of_one_second_have_names_of_their_own(self):
        self.open_with_control(GPUPOOL_CONTROL="1")
        self.press(b"jsssrrrr", b"the recording is in")
        self.assertEqual(len(list(self.folder.glob("gpupool.*.jsonl"))), 3)
        self.assertEqual(len(list(self.folder.glob("gpupool.*.gpt"))), 2)

    def test_keys_of_several_bytes(self):
        self.open_with_control(GPUPOOL_CONTROL="1")
        self.press(b"/weig\r", b"only /weig\x1b")
        self.press(b"\x1bOQ\x1b[1;2Q\x1b[15~\x1b[B", b"only /weig, " + str(self.process.pid).encode())  # F2 is no Q
        os.write(self.terminal, b"\x1b[1;")
        time.sleep(0.5)
        self.press(b"2Q/pool\x1b[A\x1bOS\r", b"only /pool, ")
        os.write(self.terminal, b"\x1b")
        time.sleep(0.5)
        os.write(self.terminal, b"OQ")
        self.press(b"\x1b\x1b[A", str(self.process.pid).encode() + b": e trims")
        os.write(self.terminal, b"\x1bq")
        self.assert_left_as_it_was()

    def test_a_process_that_takes_no_commands_says_so(self):
        self.open_with_control()
        pid = str(self.process.pid).encode()
        self.press(b"je", b"has cached? y")
        for keys in (b"y", b"s", b"r"):
            self.press(keys, b"GPUPOOL_CONTROL")
            self.press(b"j", pid + b": e trims")
        self.assertEqual(list(self.folder.iterdir()), [])
        self.process.kill()
        self.read_until(b"no process that this one may look into")
        os.write(self.terminal, b"jeysrq")
        self.assert_left_as_it_was()

    def test_a_terminal_that_cannot_be_drawn_on_gets_plain_tables(self):
        self.open_top(TERM="dumb")
        text = self.read_until(b"weights")
        self.assertNotIn(b"\x1b", text)
        self.top.send_signal(signal.SIGINT)
        self.assertEqual(self.top.wait(120), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
