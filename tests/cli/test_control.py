#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives commands to running processes: what they do, and who is refused. control_target.py says what it needs."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from control_target import COMMAND, MIB, NOBODY, SLEEP, ControlCase, needs_another_user, run_as_nobody


class ControlTest(ControlCase):
    # ---- what is there

    def test_off_there_is_no_thread_and_no_socket(self):
        for switch in ({"GPUPOOL_CONTROL": "0"}, {"GPUPOOL_CONTROL": ""}):
            target = self.target("!before = threads()", "!pool = default_pool()", **switch)
            self.assertEqual(target.do("threads() == before, sockets()"), "(True, 0)")
            self.assertIsNone(target.notice())
            self.check_failure(2, "GPUPOOL_CONTROL=1 in its environment", "trim", target.pid)

    def test_on_there_is_one_thread_from_the_first_pool_on(self):
        target = self.target("!before = threads()")
        self.assertEqual(target.do("sockets()"), "0")
        self.assertEqual(target.do("!pool = default_pool(); new_pool()"), "None")
        self.assertEqual(target.do("[t for t in threads() if t not in before], sockets()"), "(['gpupool-control'], 2)")

    def test_a_bad_switch_is_said_and_the_program_runs(self):
        target = self.target("!pool = default_pool()", "!take(pool, 1 << 20)", GPUPOOL_CONTROL="yes")
        target.process.stdin.close()
        self.assertEqual(target.process.stderr.read(), 'gpupool: GPUPOOL_CONTROL is "yes", not 0 or 1\n')

    def test_it_sleeps_while_nobody_asks(self):
        target = self.target()
        tasks = pathlib.Path(f"/proc/{target.pid}/task")
        (thread,) = [task for task in tasks.iterdir() if (task / "comm").read_text() == "gpupool-control\n"]

        def switches():
            lines = (thread / "status").read_text().splitlines()
            return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

        self.result("trim", target)
        time.sleep(0.2)
        before = switches()
        time.sleep(1.5)
        self.assertEqual(switches(), before)

    def test_no_descriptor_of_it_goes_to_a_program_that_is_started(self):
        target = self.target("!import subprocess")
        count = target.do(
            "subprocess.run(['sh', '-c', 'ls -l /proc/self/fd | grep -c -e socket: -e gpupool-'], close_fds=False,"
            " capture_output=True, text=True).stdout"
        )
        self.assertEqual(count, "'0\\n'")

    # ---- what it does

    def test_trim_gives_free_memory_back(self):
        target = self.target(
            "!pool = default_pool(); other = new_pool(b'kv')", "!cache(pool, 64 << 20)", "!cache(other, 32 << 20)"
        )
        done = self.result("trim", target, "--tag", "kv")
        self.assertEqual((done["pools"], done["changed_pools"], done["released_bytes"]), (1, 1, 32 * MIB))
        done = self.result("trim", target, "--keep", "48MiB")
        self.assertEqual((done["pools"], done["changed_pools"], done["released_bytes"]), (2, 1, 16 * MIB))
        code, out, err = self.run_command("trim", target.pid)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, rf"^process {target.pid}: 48 MiB given back by 1 of 2 pools, in [0-9.e-]+ s\n$")
        self.assertEqual(self.result("trim", target)["released_bytes"], 0)

    def test_an_idle_process_sleeps_and_wakes_with_its_bytes(self):
        target = self.target(
            "!pool = default_pool(); block = take(pool, 48 << 20); write(block, 48 << 20, 7)",
            "!other = new_pool(b'weights'); weights = take(other, 16 << 20); write(weights, 16 << 20, 9)",
        )
        done = self.result("sleep", target)
        self.assertEqual((done["pools"], done["changed_pools"]), (2, 2))
        self.assertEqual((done["released_bytes"], done["saved_bytes"]), (64 * MIB, 64 * MIB))
        self.assertEqual((done["dropped_bytes"], done["retained_bytes"]), (0, 0))
        self.assertEqual(target.do("state(pool), state(other)"), "(2, 2)")
        self.assertIn("failed", target.do("take(pool, 1 << 20)"))
        again = self.result("sleep", target)
        self.assertEqual((again["changed_pools"], again["released_bytes"]), (0, 0))
        woken = self.result("wake", target, "--tag", "weights", "--timeout", "1")
        self.assertEqual((woken["pools"], woken["changed_pools"], woken["created_bytes"]), (1, 1, 16 * MIB))
        self.assertEqual(self.result("wake", target)["changed_pools"], 1)
        self.assertEqual(self.result("wake", target)["changed_pools"], 0)
        self.assertEqual(target.do("holds(block, 48 << 20, 7), holds(weights, 16 << 20, 9)"), "(True, True)")

    def test_words_of_sleep_and_wake(self):
        target = self.target("!pool = default_pool(); take(pool, 16 << 20)")
        words = [self.run_command(*command, target.pid)[1] for command in (["sleep", "--drop"], ["sleep"], ["wake"])]
        words = [line.split(", in ")[0].split(": ", 1)[1] for line in words]
        self.assertEqual(words[0], "1 pool asleep: 16 MiB given back, contents of 0 B saved, of 16 MiB dropped")
        self.assertEqual(words[1], "nothing to do: 1 pool asleep already")
        self.assertEqual(words[2], "1 pool awake: 16 MiB taken, contents of 0 B restored, of 16 MiB lost")

    def test_words_of_a_wake_after_a_part_slept(self):
        target = self.target("!pool = new_pool(b'kv'); take(pool, 64 << 20); take(pool, 64 << 20)")
        self.assertEqual(self.run_command("sleep", target.pid, "--bytes", "64MiB", "--drop")[0], 0)
        words = [self.run_command("wake", target.pid)[1].split(", in ")[0].split(": ", 1)[1] for _ in range(2)]
        self.assertEqual(
            words[0], "64 MiB taken for blocks that slept in awake pools, contents of 0 B restored, of 64 MiB lost"
        )
        self.assertEqual(words[1], "nothing to do: 1 pool awake already")

    def test_a_part_sleeps_while_its_pool_stays_awake(self):
        target = self.target(
            "!pool = new_pool(b'weights'); first = take(pool, 64 << 20); second = take(pool, 64 << 20)",
            "!write(first, 64 << 20, 7); write(second, 64 << 20, 9); other = new_pool(b'idle'); take(other, 32 << 20)",
        )
        done = self.result("sleep", target, "--tag", "weights", "--bytes", "1MiB")
        self.assertEqual((done["pools"], done["changed_pools"]), (1, 0))
        self.assertEqual((done["released_bytes"], done["saved_bytes"]), (64 * MIB, 64 * MIB))
        self.assertEqual(target.do("state(pool), state(other)"), "(0, 0)")
        self.assertEqual(target.do("holds(second, 64 << 20, 9)"), "True")
        code, out, _ = self.run_command("sleep", target.pid, "--tag", "weights", "--bytes", "1GiB")
        self.assertEqual(code, 0)
        self.assertIn(": only 64 MiB of 1 GiB given back, contents of 64 MiB saved, of 0 B dropped, in ", out)
        code, out, _ = self.run_command("sleep", target.pid, "--tag", "weights", "--bytes", "1", "--drop")
        self.assertIn(": nothing to give back, in ", out)
        self.assertEqual(self.result("wake", target)["saved_bytes"], 128 * MIB)
        self.assertEqual(target.do("holds(first, 64 << 20, 7), holds(second, 64 << 20, 9)"), "(True, True)")
        self.check_failure(2, '--bytes: size is "0"', "sleep", target.pid, "--bytes", "0")
        self.check_failure(2, "--bytes: ", "sleep", target.pid, "--bytes", "much")

    def test_mallocs_wait_for_the_wake_where_asked(self):
        target = self.target(
            "!pool = default_pool(); take(pool, 16 << 20)",
            "!done = []; thread = threading.Thread(target=lambda: done.append(take(pool, 1 << 20)), daemon=True)",
        )
        self.result("sleep", target, "--hold-mallocs")
        self.assertEqual(target.do("!thread.start(); thread.join(0.3)"), "None")
        self.assertEqual(target.do("done"), "[]")
        self.result("wake", target)
        self.assertEqual(target.do("thread.join(30) or len(done)"), "1")

    def test_sleep_is_all_or_nothing_and_not_during_a_capture(self):
        target = self.target(
            "!pool = default_pool(); take(pool, 16 << 20)",
            "!other = new_pool(b'busy'); take(other, 16 << 20, 6)",
            "!assert lib.gpupool_sim_capture(0, 6, 1) == 0; take(other, 1 << 20, 6)",
        )
        self.check_failure(2, "stream 0x6 captures", "sleep", target.pid)
        self.assertEqual(target.do("state(pool), state(other)"), "(0, 0)")
        self.assertEqual(target.do("!assert lib.gpupool_sim_capture(0, 6, 0) == 0"), "None")
        self.assertEqual(self.result("sleep", target)["changed_pools"], 2)

    def test_wake_without_room_says_so_and_changes_nothing(self):
        target = self.target(
            "!pool = new_pool(b'one'); take(pool, 1 << 30)",
        )
        self.result("sleep", target)
        self.assertEqual(target.do("!other = new_pool(b'two'); held = take(other, 1536 << 20)"), "None")
        self.check_failure(1, f"process {target.pid}: ", "wake", target.pid, "--tag", "one")
        self.assertEqual(target.do("state(pool)"), "2")
        self.assertEqual(target.do("lib.gpupool_free(other, held, 0)"), "0")
        self.assertEqual(self.result("wake", target, "--tag", "one")["changed_pools"], 1)

    def test_snapshot(self):
        target = self.target(
            "!pool = default_pool(); block = take(pool, 3000000); other = new_pool(b'\\xffname\"')",
            "!cache(other, 5 << 20)",
        )
        with tempfile.TemporaryDirectory() as folder:
            victim = pathlib.Path(folder, "victim")
            victim.write_text("precious")
            file = pathlib.Path(folder, "now.jsonl")
            file.symlink_to(victim)
            self.assertEqual(self.run_command("snapshot", target.pid, "-o", file), (0, "", ""))
            self.assertEqual(victim.read_text(), "precious")
            self.assertFalse(file.is_symlink())
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
            first, second = map(json.loads, file.read_text().splitlines())
            self.assertEqual(sorted(os.listdir(folder)), ["now.jsonl", "victim"])
        (block,) = [each for each in first["blocks"] if each["state"] == "live"]
        self.assertEqual(str(block["address"]), target.do("block"))
        self.assertEqual((block["requested_bytes"], block["allocated_bytes"]), (3000000, 3000320))
        self.assertGreaterEqual(sum(each["bytes"] for each in first["segments"]), 3000320)
        self.assertEqual(second["name"], '\ufffdname"')
        self.assertEqual([each["state"] for each in second["blocks"] if each["state"] == "live"], [])
        code, out, err = self.run_command("snapshot", target.pid, "--report", "--pool", second["pool"])
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith(f"pool {second['pool']}:\n  Device "), out)
        self.assertIn("\n  This pool", out)

    def test_names_in_a_snapshot_do_not_move_a_terminal(self):
        target = self.target(
            "!evil = b'\\x1b[2J\\xc2\\x9b2J\\x7f\\xe2\\x80\\xae'; pool = new_pool(evil)",
            "!assert lib.gpupool_tag_push(evil) == 0; take(pool, 64 << 20)",
        )
        for options in (["--report"], []):
            code, out, err = self.run_command("snapshot", target.pid, *options)
            self.assertEqual((code, err), (0, ""))
            for character in out:
                self.assertTrue(character == "\n" or (character.isprintable() and character != "\u202e"), repr(out))
        self.assertEqual(json.loads(out)["name"], "\x1b[2J\x9b2J\x7f\u202e")

    def test_a_snapshot_of_many_blocks(self):
        target = self.target("!pool = default_pool(); blocks = [take(pool, 512) for _ in range(100000)]")
        code, out, _ = self.run_command("snapshot", target.pid)
        self.assertEqual(code, 0)
        live = [block for block in json.loads(out)["blocks"] if block["state"] == "live"]
        self.assertEqual(len(live), 100000)

    # ---- recordings

    def record(self, target, *words):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name, "now.gpt")
        recorder = subprocess.Popen(
            [COMMAND, "record", "--pid", str(target.pid), "-o", file, *words], stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        self.assertEqual(recorder.stderr.readline(), f"gpupool: process {target.pid} is being recorded\n")
        return recorder, file

    def events_of(self, file):
        code, out, _ = self.run_command("export", file)
        self.assertEqual(code, 0)
        return [line for line in out.splitlines() if line[0] in "af"]

    def test_record_until_ctrl_c(self):
        target = self.target("!pool = default_pool(); block = take(pool, 1 << 20)")
        recorder, file = self.record(target)
        self.assertEqual(target.do("![cache(pool, 4096) for _ in range(10)]"), "None")
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(60), 0)
        self.assertIn("events of process", recorder.stderr.read())
        self.assertEqual(len(self.events_of(file)), 21)  # what was live, and ten pairs
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        self.assertEqual(os.listdir(file.parent), ["now.gpt"])
        recorder, file = self.record(target, "--seconds", "0.2")
        self.assertEqual(recorder.wait(60), 0)
        self.check_failure(2, "is there already", "record", "--pid", target.pid, "-o", file)

    def test_a_recording_that_cannot_be_packed_stays(self):
        target = self.target("!pool = default_pool(); block = take(pool, 1 << 20)")
        recorder, file = self.record(target)
        file.mkdir()
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(60), 1)
        raw = recorder.stderr.read().strip().rpartition("what was recorded is in ")[2]
        whole = file.parent / "whole.gpt"
        done = subprocess.run([COMMAND, "salvage", raw, "-o", whole], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(whole.stat().st_size, 0)

    def test_one_recording_at_a_time(self):
        target = self.target()
        recorder, _ = self.record(target)
        with tempfile.TemporaryDirectory() as folder:
            self.check_failure(1, "record", "record", "--pid", target.pid, "-o", f"{folder}/x.gpt")
            self.assertEqual(os.listdir(folder), [])
        recorder.send_signal(signal.SIGTERM)
        self.assertEqual(recorder.wait(60), 0)

    def test_a_recorder_that_is_killed_leaves_no_recording_going(self):
        target = self.target()
        recorder, file = self.record(target)
        recorder.kill()
        recorder.wait()
        deadline = time.monotonic() + 30
        while True:  # as soon as the process has noticed, another one may record
            again = subprocess.run(
                [COMMAND, "record", "--pid", str(target.pid), "--seconds", "0.1", "-o", file.parent / "again.gpt"],
                capture_output=True,
                check=False,
            )
            if again.returncode == 0 or time.monotonic() > deadline:
                break
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_a_process_that_is_killed_is_recorded_up_to_then(self):
        target = self.target()
        recorder, file = self.record(target)
        self.assertEqual(target.do("![cache(pool, 4096) for _ in range(5)]"), "None")
        target.process.kill()
        self.assertEqual(recorder.wait(60), 0)
        self.assertIn("the process did not end by exit()", recorder.stderr.read())
        self.assertGreaterEqual(len(self.events_of(file)), 9)

    def test_a_process_that_ends_the_recording_itself(self):
        target = self.target()
        recorder, file = self.record(target)
        self.assertEqual(target.do("lib.gpupool_record_stop()"), "0")
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(60), 0)
        self.assertIn("ended the recording itself", recorder.stderr.read())
        self.assertTrue(file.exists())

    # ---- who cannot be asked

    def test_what_is_said_of_processes_that_cannot_be_asked(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.check_failure(2, f"there is no process {ended.pid}", "trim", ended.pid)
        self.check_failure(2, "has no pool of gpupool", "wake", os.getpid())
        target = self.target()
        self.check_failure(2, "no pool has the name 'nobody'", "sleep", target.pid, "--tag", "nobody")
        self.check_failure(2, "there is no pool 99", "trim", target.pid, "--pool", "99")
        self.check_failure(2, "--keep", "trim", target.pid, "--keep", "much")
        self.check_failure(2, "longer than 63 bytes", "trim", target.pid, "--tag", "x" * 64)
        self.check_failure(2, "or --pid", "record")

    @needs_another_user
    def test_other_users_are_refused(self):
        target = self.target()
        done = run_as_nobody("trim", target.pid)
        self.check_refused((done.returncode, done.stdout, done.stderr), 2, "is not for this user")
        name = target.notice()[1]
        # Even one who knows where to ask, and the key.
        code = (
            "import os, socket, sys\n"
            "os.setresuid(65534, 65534, 65534)\n"
            "connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "connection.connect(bytes.fromhex(sys.argv[1]))\n"
            "try: connection.send(bytes.fromhex(sys.argv[2]))\n"
            "except OSError: pass\n"
            "for _ in range(2):\n"
            "    try: print(connection.recv(4096)[144:].split(b'\\0')[0].decode()); break\n"
            "    except ConnectionResetError: pass\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, name.hex(), target.request(SLEEP).hex()],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout, "this process belongs to user 0, who alone may control it\n")
        self.assertEqual(target.do("state(pool)"), "0")

    @needs_another_user
    def test_root_controls_its_own_processes_only(self):
        process = subprocess.Popen(["sleep", "60"], user=NOBODY)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.check_failure(2, f"belongs to user {NOBODY}", "trim", process.pid)

    def test_another_version_is_said(self):
        program = (
            "import os, struct, sys\n"
            "file = os.memfd_create('gpupool-control')\n"
            "os.write(file, struct.pack('<8sII', b'GPUPOOLC', 2, 0))\n"
            "print('ready', flush=True); sys.stdin.read()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.check_failure(2, "commands of version 2, and this is version 1", "trim", process.pid)

    def test_somebody_elses_socket_is_not_trusted(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.bind("")
        listener.listen()
        program = (
            "import os, struct, sys\n"
            "file = os.memfd_create('gpupool-control')\n"
            "name = bytes.fromhex(sys.argv[1])\n"
            "os.write(file, struct.pack('<8sIIQ16s32s', b'GPUPOOLC', 1, len(name), os.getpid(), b'', name))\n"
            "print('ready', flush=True); sys.stdin.read()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, listener.getsockname().hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.check_failure(2, f"is of process {os.getpid()}", "trim", process.pid)


if __name__ == "__main__":
    unittest.main()
