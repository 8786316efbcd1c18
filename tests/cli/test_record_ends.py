#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How recorded processes ended, as `record` and the readers say it. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY
the library."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import unittest

import test_watch

run = test_watch.run

# By what a program ends with: its exit status as record gives it, what is said, and the end as JSON.
ENDS = {
    "pass": (0, None, {"how": "exit", "status": 0}),
    "sys.exit(3)": (3, "the process ended with status 3", {"how": "exit", "status": 3}),
    "os._exit(0)": (0, "the process ended with status 0, but not by exit(): by _exit, or as another program",
                    {"how": "_exit", "status": 0}),
    "os._exit(5)": (5, "the process ended with status 5, but not by exit(): by _exit, or as another program",
                    {"how": "_exit", "status": 5}),
    "ctypes.CDLL(None).quick_exit(0)": (0, "the process ended with status 0, but not by exit()",
                                        {"how": "_exit", "status": 0}),
    "os.kill(os.getpid(), 9)": (137, "the process was killed by SIGKILL",
                                {"how": "signal", "signal": 9, "name": "SIGKILL"}),
    "os.kill(os.getpid(), 15)": (143, "the process was killed by SIGTERM",
                                 {"how": "signal", "signal": 15, "name": "SIGTERM"}),
    "ctypes.CDLL(None).abort()": (134, "the process was killed by SIGABRT",
                                  {"how": "signal", "signal": 6, "name": "SIGABRT"}),
    "ctypes.string_at(0)": (139, "the process was killed by SIGSEGV",
                            {"how": "signal", "signal": 11, "name": "SIGSEGV"}),
    "lib.gpupool_record_stop(); os.kill(os.getpid(), 9)": (137, "the process was killed by SIGKILL",
                                                           {"how": "signal", "signal": 9, "name": "SIGKILL"}),
    "os.execv('/bin/true', ['true'])": (0, "the process ended with status 0, but not by exit()",
                                        {"how": "_exit", "status": 0}),
}  # fmt: skip
UNKNOWN = "the process did not end by exit(), but by _exit, as another program or by a signal"

# Since then Linux tells whoever holds on to a process how it ended.
TELLS_WHO_HOLDS_ON = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 15)


class Ends(test_watch.Case):
    def record_end(self, program, name="run.gpt", *options):
        return run(
            "record",
            "-o",
            self.folder / name,
            *options,
            "--",
            sys.executable,
            "-c",
            test_watch.PROLOGUE + "malloc(1000)\n" + program,
        )

    def end_of(self, path):
        """As `report --json` has it."""
        status, told, said = run("report", "--json", "--no-fit", path)
        self.assertEqual((status, said), (0, ""))
        return json.loads(told)["end"]

    def test_record_and_readers_say_how_a_program_ended(self):
        for number, (program, (wanted, told, end)) in enumerate(ENDS.items()):
            with self.subTest(program):
                name = f"run{number}.gpt"
                status, _, said = self.record_end(program, name)
                self.assertEqual(status, wanted, said)
                path = self.folder / name
                whole = self.folder / f"whole{number}.gpt"
                page = self.folder / f"page{number}.html"
                again = run("salvage", path, "-o", whole)[2]
                self.assertEqual(run("report", path, "-o", page)[0], 0)
                self.assertEqual(self.end_of(path), end)
                texts = (said, again, run("leaks", path)[1], page.read_text(encoding="utf-8"))
                for text in texts:
                    if told is None:
                        self.assertNotRegex(text, "killed|the process")
                    else:
                        self.assertIn(told.removeprefix("the "), text)
                    if "killed" not in (told or ""):
                        self.assertNotIn("was killed", text)

    def test_who_ends_the_command_ends_the_program_and_has_its_recording(self):
        for number, program in ((signal.SIGTERM, ""), (signal.SIGHUP, ""), (signal.SIGINT, ""), (signal.SIGQUIT, ""),
                                (signal.SIGUSR1, ""), (signal.SIGUSR2, ""),
                                (signal.SIGINT, "signal.signal(2, lambda *_: sys.exit(3));"),
                                (signal.SIGTERM, "signal.signal(15, lambda *_: sys.exit(3));")):  # fmt: skip
            with self.subTest(number=number, program=program):
                path = self.folder / f"{number}{len(program)}.gpt"
                text = test_watch.PROLOGUE + f"import signal; {program} malloc(1000); print('ready', flush=True)\n"
                words = ["record", "-o", path, "--", sys.executable, "-c", text + "time.sleep(20)"]
                with subprocess.Popen(
                    [test_watch.COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                ) as command:
                    self.assertEqual(command.stdout.readline(), "ready\n")
                    command.send_signal(number)
                    _, said = command.communicate(timeout=60)
                self.assertEqual(command.returncode, 3 if program else 128 + number, said)
                self.assertEqual([line["bytes"] for line in self.leaks(path)[1]], [1024], said)

    def record_forked(self, name, child, parent):
        """The end of a forked child, as JSON; both texts run in their process."""
        program = (
            "import signal\n" + test_watch.PROLOGUE.replace("check(lib.gpupool_default", "#")
            + f"""
made, tell = os.pipe()
pid = os.fork()
if pid == 0:
    check(lib.gpupool_default_pool(0, ctypes.byref(pool)))
    malloc(2000)
    os.write(tell, b"x")
    time.sleep(0.2)  # by then whoever records knows of the process
    {child}
os.read(made, 1)
{parent}
"""
        )  # fmt: skip
        status, _, said = run("record", "-o", self.folder / name, "--", sys.executable, "-c", program)
        self.assertEqual(status, 0, said)
        return self.end_of(self.folder / name), said

    def test_how_a_forked_child_ended(self):
        """Whoever asks for it: its parent, at once or late, or nobody."""
        asked = "os.waitpid(pid, 0)"
        late = "time.sleep(1); "
        for number, (child, parent, end) in enumerate((
            ("sys.exit(3)", asked, {"how": "exit", "status": 3}),
            ("os._exit(4)", asked, {"how": "_exit", "status": 4}),
            ("os._exit(0)", asked, {"how": "_exit", "status": 0}),
            ("os.kill(os.getpid(), 9)", asked, {"how": "signal", "signal": 9, "name": "SIGKILL"}),
            ("ctypes.string_at(0)", asked, {"how": "signal", "signal": 11, "name": "SIGSEGV"}),
            ("time.sleep(9)", "os.kill(pid, 15); " + asked, {"how": "signal", "signal": 15, "name": "SIGTERM"}),
            ("os._exit(6)", late + asked, {"how": "_exit", "status": 6}),
            ("os._exit(7)", late, {"how": "_exit", "status": 7}),
            ("os._exit(8)", "signal.signal(signal.SIGCHLD, signal.SIG_IGN); time.sleep(1)",
             {"how": "_exit", "status": 8}),
            ("time.sleep(2); os._exit(9)", "os._exit(0)", {"how": "still runs"}),
        )):  # fmt: skip
            with self.subTest(child=child, parent=parent):
                found, said = self.record_forked(f"run{number}.gpt", child, parent)
                is_told = TELLS_WHO_HOLDS_ON or parent.startswith(late) or end["how"] == "still runs"
                self.assertIn(found, [end] if is_told else [end, {"how": "unknown"}], said)

    def test_a_key_on_the_terminal_reaches_the_program_once(self):
        """From the terminal, which sends its signal to both."""
        for key, number in ((b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)):
            with self.subTest(number):
                program = f"""
import signal
got = []
signal.signal({number:d}, lambda *_: got.append(1))
malloc(1000)
print("ready", flush=True)
for _ in range(2000):
    time.sleep(0.01)
    if got: break
time.sleep(0.5)
sys.exit(10 + len(got))
"""
                words = [test_watch.COMMAND, "record", "-o", str(self.folder / f"{number:d}.gpt"), "--", sys.executable,
                         "-c", test_watch.PROLOGUE + program]  # fmt: skip
                child, terminal = pty.fork()
                if child == 0:
                    os.execv(words[0], words)
                said = b""
                while b"ready" not in said:
                    said += os.read(terminal, 1000)
                os.write(terminal, key)
                with contextlib.suppress(OSError):  # once nobody has the terminal
                    while piece := os.read(terminal, 1000):
                        said += piece
                os.close(terminal)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 11, said)
                self.assertIn(b" events of process ", said)

    def test_children_of_children(self):
        """Each has a file of its own, as workers of Python's multiprocessing do."""
        path = self.folder / "run.gpt"
        worker = (
            test_watch.PROLOGUE.replace("check(lib.gpupool_default", "#")
            + """
import multiprocessing
def work(number):
    check(lib.gpupool_default_pool(0, ctypes.byref(pool)))
    malloc(2000)
    time.sleep(0.2)
    if number == 0: return
    below = multiprocessing.get_context("fork").Process(target=work, args=(number - 1,))
    below.start()
    below.join()
    assert below.exitcode == 0
multiprocessing.set_start_method("fork")
workers = [multiprocessing.Process(target=work, args=(number,)) for number in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
    assert worker.exitcode == 0
"""
        )
        status, _, said = run("record", "-o", path, "--", sys.executable, "-c", worker)
        self.assertEqual(status, 0, said)
        made = list(self.folder.glob("run.gpt*"))
        self.assertEqual(len(made), 6, said)
        if TELLS_WHO_HOLDS_ON:
            self.assertEqual([self.end_of(one) for one in made], [{"how": "_exit", "status": 0}] * 6)
        self.assertNotIn("killed", said)

    def test_a_killed_process_that_nobody_waited_for_is_not_known(self):
        path, whole = self.folder / "alone.gpt", self.folder / "whole.gpt"
        subprocess.run(
            [sys.executable, "-c", test_watch.PROLOGUE + "malloc(1000)\nos._exit(0)"],
            check=True,
            env=os.environ | {"GPUPOOL_RECORD": str(path)},
        )
        for said in (run("salvage", path, "-o", whole)[2], run("leaks", path)[1], run("leaks", whole)[1]):
            self.assertIn(UNKNOWN, said)
        self.assertEqual(self.end_of(path), {"how": "unknown"})

    def test_the_image_after_exec_is_recorded_too(self):
        second = test_watch.PROLOGUE + "malloc(4 << 20)\nsys.exit(0)"
        status, _, said = self.record_end(f"os.execv(sys.executable, [sys.executable, '-c', {second!r}])")
        self.assertEqual(status, 0, said)
        self.assertNotIn("cannot be made", said)
        self.assertEqual(sorted(path.name for path in self.folder.glob("run.gpt*")), ["run.gpt", "run.gpt.2"])
        self.assertIn("the process became another program by exec", said)
        self.assertIn("became another program", run("leaks", self.folder / "run.gpt")[1])
        self.assertNotIn("the process", run("leaks", self.folder / "run.gpt.2")[1])
        self.assertEqual(self.end_of(self.folder / "run.gpt"), {"how": "exec"})
        self.assertEqual(self.end_of(self.folder / "run.gpt.2"), {"how": "exit", "status": 0})
        self.assertIn("4 MiB in 1 blocks", run("leaks", self.folder / "run.gpt.2")[1])

    def test_each_image_has_a_ring_of_its_own(self):
        third = test_watch.PROLOGUE + "malloc(3000)\nos.kill(os.getpid(), 11)"
        second = test_watch.PROLOGUE + f"malloc(2000)\nos.execv(sys.executable, [sys.executable, '-c', {third!r}])"
        status, _, said = self.record_end(
            f"os.execv(sys.executable, [sys.executable, '-c', {second!r}])", "run.gpt", "--last", "10min"
        )
        self.assertEqual(status, 128 + signal.SIGSEGV, said)
        self.assertEqual(
            sorted(path.name for path in self.folder.glob("run.gpt*")), ["run.gpt", "run.gpt.2", "run.gpt.3"]
        )
        self.assertEqual(said.count("became another program"), 2)
        self.assertEqual(said.count("was killed by SIGSEGV"), 1)

    def test_a_process_that_still_runs(self):
        status, _, said = self.record_end(f"""
import subprocess
code = '''{test_watch.PROLOGUE}
malloc(1000)
print("ready", flush=True)
time.sleep(30)
'''
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, start_new_session=True)
child.stdout.readline()
open("{self.folder / "pid"}", "w").write(str(child.pid))
os._exit(0)
""")
        os.kill(int((self.folder / "pid").read_text(encoding="utf-8")), signal.SIGKILL)
        self.assertEqual(status, 0, said)
        self.assertIn("the process still ran", said)
        (path,) = [path for path in self.folder.glob("run.gpt*") if "still" in run("leaks", path)[1]]
        self.assertEqual(self.end_of(path), {"how": "still runs"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
