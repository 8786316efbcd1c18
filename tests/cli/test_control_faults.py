#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands to processes that are stopped or fork, from askers that stop, die or send anything. control_target.py says
what it needs. CONTROL_ROUNDS says how many hostile packets there are."""

import array
import json
import os
import pty
import random
import signal
import socket
import subprocess
import time
import unittest

from control_target import (
    COMMAND,
    DONE,
    FAILED,
    HOLDERS,
    MIB,
    RECORD_START,
    RECORD_STOP,
    REFUSED,
    REQUEST,
    SLEEP,
    SNAPSHOT,
    TRIM,
    WAKE,
    ControlCase,
    receive,
)

ROUNDS = int(os.environ.get("CONTROL_ROUNDS", "20000"))


class ControlFaultsTest(ControlCase):
    # ---- who is stopped, dies or forks

    def test_a_stopped_process_is_not_waited_for_without_end(self):
        target = self.target("!pool = default_pool(); take(pool, 16 << 20)")
        target.process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        self.check_failure(1, "has not answered within 0.5 s", "sleep", target.pid, "--wait", "0.5")
        for _ in range(40):  # more than there is room for
            code, _, _ = self.run_command("trim", target.pid, "--wait", "0.05")
            self.assertEqual(code, 1)
        self.assertLess(time.monotonic() - start, 60)
        target.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.result("trim", target)["pools"], 1)
        # Nobody waits for that sleep any more, so it was not carried out.
        self.assertEqual(target.do("state(pool)"), "0")

    def test_askers_that_stop_or_die_hold_up_nobody(self):
        target = self.target("!pool = default_pool(); cache(pool, 16 << 20)")
        silent = [target.connect() for _ in range(40)]
        self.assertEqual(self.result("trim", target)["released_bytes"], 16 * MIB)
        for connection in silent:
            connection.close()
        request = target.request(TRIM)
        deaf = target.connect()  # never reads what it is answered
        for _ in range(2000):
            try:
                deaf.send(request, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
        self.assertEqual(self.result("trim", target)["pools"], 1)
        deaf.close()
        self.assertEqual(self.result("trim", target)["pools"], 1)
        self.check_no_connection(target)

    def test_what_an_asker_no_longer_waits_for_ends(self):
        target = self.target("!pool = new_pool(b'one'); take(pool, 1 << 30)")
        self.result("sleep", target, "--drop")
        self.assertEqual(target.do("!other = new_pool(b'two'); held = take(other, 1536 << 20)"), "None")
        terminal, standard_error = pty.openpty()
        asker = subprocess.Popen(
            [COMMAND, "wake", str(target.pid), "--tag", "one", "--timeout", "3000"], stderr=standard_error
        )
        os.close(standard_error)
        try:
            # It waits, and says so on a terminal; the process does nothing else meanwhile.
            self.assertIn(f"process {target.pid} is still at it after ", os.read(terminal, 1000).decode())
            self.assertEqual(target.do("state(pool)"), "3")
            asker.send_signal(signal.SIGINT)
            asker.wait(timeout=30)
        finally:
            asker.kill()
            asker.wait()
            os.close(terminal)
        self.assertEqual(self.result("trim", target)["pools"], 2)
        self.assertEqual(target.do("state(pool)"), "2")
        self.assertEqual(target.do("lib.gpupool_free(other, held, 0)"), "0")
        self.assertEqual(self.result("wake", target, "--tag", "one")["changed_pools"], 1)

    def test_the_oldest_of_too_many_is_told_why(self):
        target = self.target("!pool = default_pool(); cache(pool, 16 << 20)")
        first = target.connect()
        rest = [target.connect() for _ in range(16)]
        self.assertEqual(self.result("trim", target)["pools"], 1)
        outcome, message = receive(first)[:2]
        self.assertEqual(outcome, REFUSED)
        self.assertIn("16 others have connected since", message)
        for each in [first, *rest]:
            each.close()

    def test_askers_that_are_killed_at_random(self):
        target = self.target("!pool = default_pool(); block = take(pool, 32 << 20); write(block, 32 << 20, 5)")
        generator = random.Random(1)
        for round in range(60):
            words = ["sleep", "wake", "trim", "snapshot"][round % 4]
            asker = subprocess.Popen(
                [COMMAND, words, str(target.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(generator.uniform(0, 0.02))
            asker.kill()
            asker.wait()
        self.result("wake", target)
        self.assertEqual(target.do("holds(block, 32 << 20, 5), state(pool)"), "(True, 0)")
        self.check_no_connection(target)

    def test_a_forked_child_has_none_until_it_makes_a_pool(self):
        target = self.target(
            "!pool = default_pool(); block = take(pool, 16 << 20)",
            "!busy = []",
        )
        waiting = target.connect()  # which the child must not keep
        self.result("trim", target)
        child = (
            "os.write(w, str(sockets()).encode()), os.read(go, 1), new_pool(b'child'),"
            " os.write(w, str(sockets()).encode()), os.read(go, 1), os._exit(0)"
        )
        line = f"!r, w = os.pipe(); go, on = os.pipe(); child = os.fork(); child or ({child})"
        self.assertEqual(target.do(line), "None")
        self.assertEqual(target.do("os.read(r, 1)"), "b'0'")
        child = int(target.do("child"))
        self.check_failure(2, "has no pool of gpupool", "sleep", child)
        self.assertEqual(self.result("sleep", target)["changed_pools"], 1)
        self.assertEqual(target.do("os.write(on, b'1')"), "1")
        self.assertEqual(target.do("os.read(r, 1)"), "b'2'")
        code, out, err = self.run_command("trim", child, "--json", "--tag", "child")
        self.assertEqual((code, err, json.loads(out or "{}").get("pools")), (0, "", 1))
        self.assertEqual(self.result("wake", target)["changed_pools"], 1)
        target.do("os.write(on, b'1')")
        target.do("os.waitpid(child, 0)[1]")
        waiting.close()
        self.assertEqual(self.result("trim", target)["pools"], 1)

    def test_forks_race_with_commands(self):
        target = self.target("!pool = default_pool(); block = take(pool, 8 << 20); write(block, 8 << 20, 3)")
        self.assertEqual(
            target.do(
                "!exec('def work():\\n  for _ in range(150):\\n    child = os.fork()\\n    if child == 0:"
                " os._exit(0 if sockets() == 0 else 1)\\n    bad.append(os.waitpid(child, 0)[1])')"
            ),
            "None",
        )
        start = "!bad = []; thread = threading.Thread(target=work, daemon=True); thread.start()"
        self.assertEqual(target.do(start), "None")
        for command in ("sleep", "wake") * 10:
            self.result(command, target)
        self.assertEqual(target.do("thread.join(120) or sum(bad), len(bad)"), "(0, 150)")
        self.assertEqual(target.do("holds(block, 8 << 20, 3)"), "True")

    def test_a_program_that_closes_all_descriptors_keeps_its_own(self):
        target = self.target()
        self.assertEqual(
            target.do(
                "!os.closerange(3, 64); import socket; mine = socket.socket(socket.AF_UNIX); mine.bind('');"
                " mine.listen(); mine.settimeout(5)"
            ),
            "None",
        )
        self.check_failure(2, "process", "trim", target.pid)
        line = "!other = socket.socket(socket.AF_UNIX); other.connect(mine.getsockname()); mine.accept()"
        self.assertEqual(target.do(line), "None")

    def test_a_limit_of_file_sizes_refuses_and_kills_nobody(self):
        limit = "!import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL);" + (
            " resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))"
        )
        target = self.target("!pool = default_pool(); take(pool, 1 << 20)", limit)
        self.check_failure(1, "no room for the answer", "snapshot", target.pid)
        self.assertEqual(self.result("trim", target)["pools"], 1)
        self.target(limit, "!pool = default_pool()", GPUPOOL_SIM="data=0")

    def test_an_asker_whom_no_descriptor_is_left_for_delays_no_fork(self):
        target = self.target("!pool = default_pool(); block = take(pool, 1 << 20)", "!import resource")
        fork = "start = time.monotonic(); os.waitpid(os.fork() or os._exit(0), 0); all.append(time.monotonic() - start)"
        name = target.notice()[1]
        taking = "for _ in range(64): files.append(os.dup(0))"
        target.do("!resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096)); files = []; all = []")
        target.do(f"!exec({taking!r})")
        self.assertEqual(target.do("os.dup(0)"), 'failed: OSError(24, \'Too many open files\')')
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
            asker.connect(name)
            for _ in range(20):
                target.do(f"!{fork}")
        self.assertLess(float(target.do("sorted(all)[10]")), 0.05)
        target.do("!for file in files: os.close(file)")
        self.assertEqual(self.result("trim", target)["pools"], 1)

    def test_a_limit_of_descriptors_that_is_raised_again_costs_no_asker_his_answer(self):
        target = self.target("!pool = default_pool(); block = take(pool, 1 << 20)", "!import resource")
        target.do("!resource.setrlimit(resource.RLIMIT_NOFILE, (9, 4096))")
        with target.connect(), target.connect():
            time.sleep(0.3)
        target.do("!resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))")
        self.assertEqual(self.result("trim", target, "--wait", "10")["pools"], 1)

    # ---- hostile packets

    def test_hostile_packets_change_nothing(self):
        target = self.target(
            "!pool = default_pool(); block = take(pool, 16 << 20); write(block, 16 << 20, 8); cache(pool, 8 << 20)",
        )
        key = target.notice()[0]
        good = target.request(TRIM, tag=b"")
        cases = {
            "no request": [b"x", b"\0" * REQUEST.size, good[:15]],
            "of version 2": [target.request(TRIM, version=2), target.request(TRIM, version=2)[:16]],
            "another size": [good[:-1], good + b"\0", good[:16]],
            "another key": [target.request(SLEEP, key=bytes(16)), target.request(TRIM, key=key[::-1] + b"")],
            "has no end": [target.request(SLEEP, tag=b"x" * 64), target.request(SLEEP, tag=b"a\0b"),
                           target.request(RECORD_START, path=b"/" * 4000)],
            "reserved": [target.request(SLEEP, reserved=b"\1")],
            "both": [target.request(SLEEP, pool=1, tag=b"x")],
            "unknown command": [target.request(command) for command in (0, 8, 0xFFFFFFFF)],
            "does not use": [
                target.request(WAKE, bytes=1), target.request(TRIM, flags=1), target.request(TRIM, mode=1),
                target.request(HOLDERS, bytes=1), target.request(SLEEP, timeout=1), target.request(TRIM, path=b"/x"),
                target.request(RECORD_START), target.request(RECORD_STOP, tag=b"x"),
            ],
            "an hour": [target.request(WAKE, timeout=2**63)],
            "has started no recording": [target.request(RECORD_STOP)],
        }  # fmt: skip
        for words, packets in cases.items():
            for packet in packets:
                with self.subTest(words=words), target.connect() as connection:
                    connection.send(packet)
                    outcome, message = receive(connection)
                    self.assertEqual(outcome, REFUSED)
                    self.assertIn(words, message)
                    self.assertIsNone(receive(connection))
        for fields in ({"mode": 7}, {"flags": 0x80}):
            with target.connect() as connection:
                connection.send(target.request(SLEEP, **fields))
                self.assertEqual(receive(connection)[0], FAILED)
        for path in (b"/", b"relative/nowhere", b"/proc/self/mem", b"/dev/null"):
            with target.connect() as connection:
                connection.send(target.request(RECORD_START, path=path))
                self.assertEqual(receive(connection)[0], FAILED, path)
        self.assertEqual(target.do("holds(block, 16 << 20, 8), state(pool)"), "(True, 0)")
        self.assertEqual(self.result("trim", target)["released_bytes"], 8 * MIB)

    def test_thousands_of_random_packets(self):
        target = self.target(
            "!pool = default_pool(); block = take(pool, 16 << 20); write(block, 16 << 20, 8); cache(pool, 8 << 20)",
        )
        generator = random.Random(7)
        # Each has another key, or none of the right kind: none may be carried out.
        wrong = bytearray(target.request(SLEEP, key=bytes(16)))
        for round in range(ROUNDS):
            packet = bytearray(wrong)
            for _ in range(generator.randrange(6)):
                at = generator.choice(
                    (generator.randrange(16), generator.randrange(32, 192), generator.randrange(len(packet)))
                )
                if not 16 <= at < 32:
                    packet[at] = generator.randrange(256)
            if generator.random() < 0.2:
                packet = packet[: generator.randrange(len(packet))]
            if generator.random() < 0.1:
                packet = bytearray(generator.randbytes(generator.randrange(1, 9000)))
            with target.connect() if round % 100 == 0 else self.again(target) as connection:
                try:
                    if round % 50 == 0:  # descriptors that nobody wants
                        pair = array.array("i", [0, 1, 2])
                        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pair)]
                        connection.sendmsg([packet or b"x"], rights)
                    else:
                        connection.send(packet or b"x")
                    if generator.random() < 0.5:
                        continue  # and leaves
                    answer = receive(connection)
                except BrokenPipeError:
                    continue  # it was closed to make room
                if answer is not None:
                    self.assertEqual(answer[0], REFUSED)
        self.assertEqual(target.do("holds(block, 16 << 20, 8), state(pool)"), "(True, 0)")
        self.assertEqual(self.result("trim", target)["released_bytes"], 8 * MIB)
        self.check_no_connection(target)

    def test_random_fields_with_the_right_key(self):
        target = self.target("!pool = default_pool(); other = new_pool(b'x'); block = take(pool, 4 << 20)")
        generator = random.Random(3)
        answers = set()
        for _ in range(ROUNDS // 20):
            command = generator.choice((TRIM, SNAPSHOT, SLEEP, WAKE, HOLDERS))
            packet = bytearray(target_request := target.request(command))
            for _ in range(generator.randrange(3)):
                packet[generator.randrange(32, 192)] = generator.choice((0, 1, 2, 255))
            with self.again(target) as connection:
                connection.send(packet)
                outcome, message = receive(connection)
            answers.add(outcome)
            self.assertEqual(bool(message), outcome != DONE)
            if packet == target_request:
                self.assertEqual(outcome, DONE)
        self.assertEqual(answers, {DONE, FAILED, REFUSED})
        self.result("wake", target)
        self.assertEqual(
            target.do("state(pool), lib.gpupool_validate(pool), lib.gpupool_free(pool, block, 0)"), "(0, 0, 0)"
        )
        self.check_no_connection(target)

    def again(self, target):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if getattr(self, "known", None) is None:
            self.known = target.notice()[1]
        connection.connect(self.known)
        connection.settimeout(30)
        return connection


if __name__ == "__main__":
    unittest.main()
