#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process in gpupool top: its timeline, and who holds what. Uses GPUPOOL_COMMAND and GPUPOOL_LIBRARY."""

import json
import os
import re
import signal
import time
import unittest

from top_target import MIB, TerminalTest

# Holds 768 MiB of weights, 96 MiB of a cache, and in a pool of its own 64 MiB; then what the lines on its input say.
CALLS = """
@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
def tell(_, text, capacity):
    lines, frame = [], sys._getframe(2)
    while frame is not None:
        lines.append(f"{frame.f_code.co_name} (train.py:{frame.f_lineno})")
        frame = frame.f_back
    said = "\\n".join(lines).encode()
    ctypes.memmove(text, said, len(said))
    return len(said)
assert lib.gpupool_set_stack_fn(tell, None) == 0
pool = default_pool()
lib.gpupool_set_name(pool, b"weights")
def tagged(tag, size):
    lib.gpupool_tag_push(tag)
    block = take(pool, size)
    lib.gpupool_tag_pop()
    return block
def load():
    for _ in range(12):
        tagged(b"weights", 64 << 20)
def attend():
    return tagged(b"kv cache", 96 << 20)
def step():
    return attend()
def descend(depth):
    return descend(depth - 1) if depth else take(pool, 32 << 20)
load()
held = step()
other = ctypes.c_void_p()
assert lib.gpupool_create(None, ctypes.byref(other)) == 0
def apart():
    take(other, 64 << 20)
apart()
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
TOO_LITTLE = "take(default_pool(), 4096)\nstay()\n"


class Calls(TerminalTest):
    def start_calls(self, **environment):
        return self.start_pool(CALLS, **{"GPUPOOL_CONTROL": "1"} | environment)

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.readline(), "done\n")


class Printed(Calls):
    def printed(self, process):
        code, out, err = self.run_top(str(process.pid))
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()

    def holders(self, process):
        code, out, err = self.run_top(str(process.pid), "--json")
        self.assertEqual((code, err), (0, ""))
        (line,) = out.splitlines()
        return json.loads(line)

    def test_functions_and_calls(self):
        self.process = self.start_calls()
        lines = self.printed(self.process)
        self.assertIn(f"{self.process.pid} (", lines[0])
        self.assertIn("928 MiB live, 0 B cached, 928 MiB reserved", lines[0])
        self.assertRegex(lines[1], r"^who holds 928 MiB, as samples estimate it; by total; asking took [\d.]+ ms$")
        (turn,) = [at for at, line in enumerate(lines) if line.endswith("CALLS")]
        rows = [re.fullmatch(r" *(\S+ \w+) +\d+% +(-|\S+ \w+) +[\d.]+s +(\S+) \(train\.py\)", line).groups()
                for line in lines[3:turn]]  # fmt: skip
        self.assertEqual(rows, [
            ("928 MiB", "-", "<module>"), ("864 MiB", "864 MiB", "tagged"), ("768 MiB", "-", "load"),
            ("96 MiB", "-", "attend"), ("96 MiB", "-", "step"), ("64 MiB", "64 MiB", "apart"),
        ])  # fmt: skip
        tree = [re.sub(r" \(train.py:\d+\)", "", line[40:]) for line in lines[turn + 1 :]]
        self.assertEqual(tree, [
            "- <module>", "- load", "- tagged", '  tag "weights"',
            "- <module>", "- step", "- attend", "- tagged", '  tag "kv cache"',
            "- <module>", "  apart",
        ])  # fmt: skip

    def test_a_function_that_calls_itself_counts_once(self):
        self.process = self.start_calls()
        self.do("deep = descend(5)")
        (row,) = [line for line in self.printed(self.process) if line.endswith("descend (train.py)")]
        self.assertEqual(row.split()[:2], ["32", "MiB"])

    def test_json_has_whole_stacks_and_what_was_asked(self):
        self.process = self.start_calls()
        said = self.holders(self.process)
        self.assertEqual(said["pid"], self.process.pid)
        self.assertLess(said["holders_seconds"], 30)
        self.assertEqual({(each["pool"], each["tag"], each["live_bytes"], each["samples"]) for each in said["holders"]},
                         {(1, "weights", 768 * MIB, 12), (1, "kv cache", 96 * MIB, 1), (2, "", 64 * MIB, 1)})
        (cache,) = [each for each in said["holders"] if each["tag"] == "kv cache"]
        names = [frame.split(" (train.py:")[0] for frame in cache["stack"]]
        self.assertEqual(names[:4], ["tagged", "attend", "step", "<module>"])
        self.assertGreater(len(names), 4)  # the interpreter's own, which the tables leave out
        self.do("lib.gpupool_free(pool, held, 0)")
        self.assertNotIn("kv cache", [each["tag"] for each in self.holders(self.process)["holders"]])

    def test_a_stack_longer_than_a_public_holder_has_room_for_is_whole(self):
        self.process = self.start_calls()
        self.do("deep = descend(150)")
        (deep,) = [each for each in self.holders(self.process)["holders"] if len(each["stack"]) > 150]
        self.assertGreater(len("\n".join(deep["stack"])), 2048)
        self.assertIn("<module>", [frame.split(" ")[0] for frame in deep["stack"]])

    def test_a_process_that_takes_no_commands_shows_figures_only(self):
        self.process = self.start_calls(GPUPOOL_CONTROL="0")
        lines = self.printed(self.process)
        self.assertIn("928 MiB live", lines[0])
        self.assertEqual(len(lines), 2)
        self.assertIn("takes no commands: start it with GPUPOOL_CONTROL=1 in its environment", lines[1])
        said = self.holders(self.process)
        self.assertIn("GPUPOOL_CONTROL=1", said["holders_error"])
        self.assertEqual((said["holders"], len(said["pools"])), ([], 2))

    def test_where_nothing_is_a_sample_it_says_so(self):
        for program, environment in ((TOO_LITTLE, {}), (CALLS, {"GPUPOOL_SAMPLE": "0"})):
            process = self.start_pool(program, **{"GPUPOOL_CONTROL": "1"} | environment)
            self.assertEqual(self.printed(process)[1:],
                             ["no live block is a sample: little is held, or GPUPOOL_SAMPLE is 0"])

    def test_what_is_refused(self):
        for words, reason in ((["1"], "shows this user no pool"), (["0"], "PID"), (["1", "--sort", "live"], "excludes"),
                              (["1", "--prometheus"], "xcludes"), (["x"], "PID")):  # fmt: skip
            code, out, err = self.run_top(*words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(reason, err)


class Drawn(Calls):
    def open_process(self):
        self.process = self.start_calls()
        self.start_top(100, 30, None, {}, (str(self.process.pid), "--interval", "0.2"))
        self.read_until(b"FUNCTION")

    def frame_where(self, is_wanted):
        """The first frame that is as it should be."""
        until = time.monotonic() + 60
        while not is_wanted(lines := self.frame()):
            self.assertLess(time.monotonic(), until, lines)
        return lines

    def frame_with(self, wanted):
        return self.frame_where(lambda lines: any(wanted in line for line in lines))

    def test_a_pool_is_opened_from_the_table_and_left_again(self):
        self.process = self.start_calls()
        self.start_top(100, 24, None, {}, ("--pid", str(self.process.pid), "--interval", "0.2"))
        self.read_until(b"RESERVED")
        os.write(self.terminal, b"\n")  # nothing is marked
        self.press(b"j", b"Enter shows who holds what")
        self.press(b"\n", b"FUNCTION")
        lines = self.frame_with("who holds 864 MiB")
        self.assertIn(", pool 1 (weights): 864 MiB live", lines[0])
        self.assertFalse([line for line in lines if "apart" in line])  # is of the other pool
        self.press(b"?", b"Of one pool, or process:")
        self.press(b"x", b"FUNCTION")
        self.press(b"\x1b", b"COMMAND")
        self.press(b"j\n", b", pool 2: 64 MiB live")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_the_timeline_and_the_table_follow_the_program(self):
        self.open_process()
        self.frame_with("who holds 928 MiB")
        self.do("more = [take(pool, 256 << 20) for _ in range(12)]")
        self.frame_with("who holds 3.91 GiB")
        self.do("[lib.gpupool_free(pool, each, 0) for each in more]")
        self.do("time.sleep(0.05); take(pool, 320 << 20)")  # a call that shows what caches did before it
        lines = self.frame_where(lambda lines: "░" in lines[1])  # reserved still, live no more
        self.frame_with("who holds 1.22 GiB")
        chart = [line[11:] for line in lines[1:8]]
        self.assertEqual(chart[-1].lstrip()[0], "█")
        self.assertTrue(all(len(line) <= 100 for line in lines))
        self.assertIn("█ live ░ reserved, every 0.2 s", "".join(lines))
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_calls_fold_and_unfold(self):
        self.open_process()
        self.press(b"v", b"CALLS")
        self.assertTrue([line for line in self.frame() if "attend" in line])
        marked = self.marked(b"jjjjj", b"\r\n> ")
        self.assertIn("- <module>", marked)
        os.write(self.terminal, b"\n")
        lines = self.frame_where(lambda lines: not any("attend" in line for line in lines))
        self.assertIn("+ <module>", next(line for line in lines if line.startswith("> ")))
        os.write(self.terminal, b"\n")
        self.frame_with("attend")
        os.write(self.terminal, b"n")
        self.frame_with("ffi_call")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_a_click_marks_a_line(self):
        self.open_process()
        self.press(b"v", b"CALLS")
        lines = self.frame()
        at = next(line for line, text in enumerate(lines, 1) if "attend" in text)
        marked = self.marked(self.mouse(0, at), b"\r\n> ")
        self.assertIn("attend", marked)
        os.write(self.terminal, self.mouse(0, 1) + b"q")  # the title is no line of the tree
        self.assert_left_as_it_was()

    def test_orders_turn_and_a_space_stops_the_figures(self):
        self.open_process()
        self.press(b">", b"; by own;")
        self.press(b">", b"; by oldest;")
        self.press(b"<<", b"; by total;")
        self.press(b" ", b"; PAUSED")
        self.do("take(pool, 512 << 20)")
        time.sleep(1.5)
        self.assertTrue([line for line in self.frame() if "who holds 928 MiB" in line])
        os.write(self.terminal, b" ")
        self.frame_with("who holds 1.41 GiB")
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_one_that_is_stopped_keeps_what_is_shown_and_one_that_ends_too(self):
        self.open_process()
        self.process.send_signal(signal.SIGSTOP)
        lines = self.frame_with("has not answered within 0.5 s")
        self.assertTrue([line for line in lines if "load (train.py)" in line])
        self.process.send_signal(signal.SIGCONT)
        self.frame_with("who holds 928 MiB")
        self.process.kill()
        self.process.wait()
        lines = self.frame_with("; ENDED")
        self.assertTrue([line for line in lines if "load (train.py)" in line])
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()

    def test_small_terminals(self):
        self.open_process()
        for columns, lines in ((20, 4), (30, 2), (80, 12)):
            self.resize(columns, lines)
            self.press(b"j", b"\x1b[J")
            time.sleep(0.5)
            shown = self.frame()
            self.assertLessEqual(len(shown), lines)
            self.assertLessEqual(max(map(len, shown)), columns)
        os.write(self.terminal, b"q")
        self.assert_left_as_it_was()


if __name__ == "__main__":
    unittest.main()
