#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The broker of groups whose members are of several users. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the
library. tests/share/broker_test.cpp has brokers that do not do their part."""

import contextlib
import fcntl
import json
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from control_target import needs_another_user
from test_share import COMMAND, GIB, MEMBER, SIGNALS, ShareTest, needs_strace

# As src/share/broker.hpp has them.
MAGIC = b"gpbroker"
SAYS = struct.Struct("<8sIIQII128s")
ASKS = struct.Struct("<8sII64s64sQ4096s")
REFUSED, ASK, HERE, NONE = range(4)
REGION_BYTES = 4096 + 256 * 256
ALICE, BOB = 12345, 12346

# What a member of another user does before its first pool: the library was loaded by then.
BECOME = """
user, groups = os.environ.get("TEST_USER"), os.environ.get("TEST_GROUPS", "")
if user:
    os.setgroups([int(each) for each in groups.split(",") if each])
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))
u64 = ctypes.c_uint64
"""


class BrokerTest(ShareTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.socket = self.folder / "team.sock"
        self.environment |= {"GPUPOOL_SHARE": "team", "GPUPOOL_SHARE_SOCKET": str(self.socket)}
        del self.environment["GPUPOOL_SHARE_DIR"]

    def remove_device(self):
        for path in pathlib.Path("/dev/shm").glob(f"gpupool-*.sim-{self.device}-*"):
            path.unlink()

    def start_broker(self, *arguments, **environment):
        return self.start([COMMAND, "share", "--serve", self.socket, *arguments], **environment)

    def start(self, command, **options):
        environment = options.pop("environment", {})
        broker = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
            **options,
        )
        self.addCleanup(broker.stdout.close)
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)
        self.assertEqual(broker.stdout.readline(), f"serves at {self.socket}\n")
        return broker

    def start_member(self, user="", **environment):
        member = subprocess.Popen(
            [sys.executable, "-c", MEMBER.replace("u64 = ctypes.c_uint64\n", BECOME)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | {"TEST_USER": str(user)} | environment,
        )
        for each in (member.stderr.close, member.stdout.close, member.wait, member.stdin.close, member.kill):
            self.addCleanup(each)
        self.assertEqual(member.stdout.readline(), "ready\n", member.poll() is not None and member.stderr.read())
        return member

    def end(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        process.wait(20)

    def group(self):
        (group,) = self.listed()
        return group

    def assert_alone(self, words, **environment):
        """A process that cannot join says so once, and works."""
        member = self.start_member(**environment)
        member.stdin.close()
        self.assertEqual(member.wait(20), 0)
        said = member.stderr.read()
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("runs alone, and shares with nobody: ", said)
        self.assertIn(words, said)

    # A member by hand.

    def connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(connection.close)
        connection.settimeout(30)
        connection.connect(str(self.socket))
        return connection

    def question(self, group=b"team", device=b"GPU-0", size=REGION_BYTES, page=b"", magic=MAGIC, version=1):
        return ASKS.pack(magic, version, 0, group, device, size, page)

    def receive(self, connection):
        """(outcome, message, limit, descriptors)"""
        data, files, _, _ = socket.recv_fds(connection, SAYS.size + 1, 4)
        for each in files:
            self.addCleanup(self.close, each)
        magic, version, outcome, limit, share, _, message = SAYS.unpack(data)
        self.assertEqual((magic, version), (MAGIC, 1))
        return outcome, message.split(b"\0")[0].decode(), (limit, share), files

    def close(self, file):
        with contextlib.suppress(OSError):
            os.close(file)

    def ask(self, **question):
        connection = self.connect()
        self.assertEqual(self.receive(connection)[0], ASK)
        connection.send(self.question(**question))
        return self.receive(connection)


class Groups(BrokerTest):
    @needs_strace
    def test_a_signal_costs_no_region(self):
        self.start([*SIGNALS, COMMAND, "share", "--serve", self.socket])
        member = self.start_member()
        self.assertEqual([each["pid"] for each in self.group()["members"]], [member.pid])

    def test_members_are_listed_set_and_repaired(self):
        self.start_broker("--group", "team")
        first = self.start_member(GPUPOOL_SHARE_GUARANTEED="4GiB")
        second = self.start_member()
        group = self.group()
        self.assertEqual((group["group"], group["device"]), ("team", "sim:0"))
        self.assertEqual(group["path"], f"{self.socket}:team.sim-{self.device}-0")
        self.assertEqual({each["pid"] for each in group["members"]}, {first.pid, second.pid})
        self.assertEqual(group["used_bytes"], 7 * GIB)
        (slot,) = (each["slot"] for each in group["members"] if each["pid"] == first.pid)
        code, out, err = self.run_share(
            "--socket", self.socket, "--group", "team", "--json", "--member", str(slot), "--set", "guarantee=3GiB",
            GPUPOOL_SHARE_SOCKET="", GPUPOOL_SHARE="",
        )  # fmt: skip
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["used_bytes"], 6 * GIB)
        self.assertEqual(self.run_share("--set", "limit=75%")[0], 0)
        self.assertEqual(self.group()["limit_bytes"], 6 * GIB)
        self.end(second)
        self.assertEqual(self.group()["limbo_bytes"], 3 * GIB)
        code, out, err = self.run_share("--repair", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["used_bytes"], 3 * GIB)

    def test_where_there_is_no_group(self):
        self.assert_refused([], "No such file or directory")
        self.start_broker()
        self.assert_refused([], "nobody has joined the group yet")
        self.assert_refused(["--repair"], "nobody has joined the group yet")
        self.assert_refused([], "which group?", GPUPOOL_SHARE="")

    def test_the_limit_is_the_brokers(self):
        self.start_broker("--limit", "50%")
        self.start_member(GPUPOOL_SHARE_LIMIT="5GiB")
        self.assertEqual(self.group()["limit_bytes"], 4 * GIB)

    @needs_another_user
    def test_users_share(self):
        self.start_broker("--allow-uid", f"{ALICE},{BOB}")
        first = self.start_member(ALICE)
        self.start_member(BOB)
        group = self.group()
        self.assertEqual({each["uid"] for each in group["members"]}, {ALICE, BOB})
        self.assertEqual(group["used_bytes"], 6 * GIB)
        self.end(first)
        # There is room for it only once it has taken back what the other user's member left.
        self.start_member(BOB)
        self.assertEqual({each["uid"] for each in self.group()["members"]}, {BOB})

    @needs_another_user
    def test_others_run_alone(self):
        self.environment["GPUPOOL_SIM"] = "capacity=16GiB,data=0"
        self.start_broker("--group", "team", "--allow-uid", str(BOB), "--allow-gid", "54321")
        self.assert_alone(f"its broker refuses: user {ALICE} is not allowed", TEST_USER=str(ALICE))
        self.assert_alone("its broker refuses: it serves another group", GPUPOOL_SHARE="other")
        self.start_member(BOB)
        self.start_member(ALICE, TEST_GROUPS="54320,54321")
        self.assertEqual({each["uid"] for each in self.group()["members"]}, {ALICE, BOB})

    @needs_another_user
    def test_a_broker_of_a_user_without_rights(self):
        os.chown(self.folder, ALICE, ALICE)
        code = "import os, sys; os.setgroups([]); os.setgid({0}); os.setuid({0}); os.execv(sys.argv[1], sys.argv[1:])"
        probe = [sys.executable, "-c", code.format(ALICE), "/bin/test", "-x", COMMAND]
        if subprocess.run(probe, check=False).returncode != 0:
            self.skipTest("the build's folder is root's own")
        self.start(
            [sys.executable, "-c", code.format(ALICE), COMMAND, "share", "--serve", self.socket, f"--allow-uid={BOB}"]
        )
        self.start_member(BOB)
        self.start_member(ALICE)
        self.start_member(0)
        self.assertEqual({each["uid"] for each in self.group()["members"]}, {0, ALICE, BOB})


class Life(BrokerTest):
    def test_members_go_on_without_it(self):
        self.environment["GPUPOOL_SIM"] = "capacity=16GiB,data=0"  # also for those that run alone
        broker = self.start_broker()
        first = self.start_member()
        second = self.start_member()
        self.end(broker)
        self.assert_alone("Connection refused")
        self.assert_refused([], "Connection refused")
        # One that starts anew would split the group.
        code, out, err = self.run_share("--serve", self.socket)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("members of a former broker", err)
        self.end(first)
        self.assertIn("members of a former broker", self.run_share("--serve", self.socket)[2])
        second.stdin.close()
        self.assertEqual(second.wait(20), 0)
        self.start_broker()
        self.start_member()
        self.assertEqual(len(self.group()["members"]), 1)

    def test_a_service_manager_keeps_the_regions(self):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.settimeout(30)
        manager.bind(str(self.folder / "notify"))
        environment = {"NOTIFY_SOCKET": str(self.folder / "notify")}
        broker = self.start_broker(environment=environment)
        self.assertEqual(manager.recv(100), b"READY=1")
        first = self.start_member()
        text, (kept,), _, _ = socket.recv_fds(manager, 1000, 1)
        self.addCleanup(os.close, kept)
        name = f"team/sim-{self.device}-0"
        self.assertEqual(text.decode(), f"FDSTORE=1\nFDNAME={name}")
        self.end(broker)
        # Files that are no regions are left out.
        program = (
            "import fcntl, os, sys; kept = fcntl.fcntl(int(sys.argv[1]), fcntl.F_DUPFD, 100);"
            "other = fcntl.fcntl(0, fcntl.F_DUPFD, 100); os.dup2(other, 3); os.dup2(kept, 4);"
            f"os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='a/b:{name}');"
            "os.execv(sys.argv[2], sys.argv[2:])"
        )
        self.start(
            [sys.executable, "-c", program, str(kept), COMMAND, "share", "--serve", self.socket], pass_fds=[kept]
        )
        second = self.start_member()
        self.assertEqual({each["pid"] for each in self.group()["members"]}, {first.pid, second.pid})

    def test_a_signal_ends_it(self):
        for each in (signal.SIGTERM, signal.SIGINT):
            broker = self.start_broker()
            self.assertTrue(self.socket.exists())
            self.end(broker, each)
            self.assertEqual(broker.returncode, 0)
            self.assertFalse(self.socket.exists())

    def test_one_at_a_time(self):
        self.start_broker()
        self.assertIn("another broker has", self.run_share("--serve", self.socket)[2])
        self.start_member()
        self.assertEqual(len(self.group()["members"]), 1)

    def test_a_stopped_one_delays_nobody_for_long(self):
        self.environment["GPUPOOL_SIM"] = "capacity=16GiB,data=0"
        broker = self.start_broker()
        member = self.start_member()
        broker.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        self.assert_alone("has a broker that does not answer")
        self.assertLess(time.monotonic() - start, 15)
        broker.send_signal(signal.SIGCONT)
        self.assertEqual([each["pid"] for each in self.group()["members"]], [member.pid])

    def test_bad_input(self):
        world = self.folder / "world"
        world.mkdir()
        world.chmod(0o777)
        (self.folder / "file").write_bytes(b"")
        serve = ["--serve", str(self.socket)]
        for arguments, words in (
            (["--serve", str(world / "x")], "everybody may write to"),
            (["--serve", str(self.folder / "none" / "x")], "No such file"),
            (["--serve", str(self.folder / "file")], "Address already in use"),
            (["--serve", str(self.folder / ("x" * 120))], "is longer than 107 bytes"),
            ([*serve, "--allow-uid", "nobody-of-this-name"], "there is no 'nobody-of-this-name'"),
            ([*serve, "--allow-gid", "-1"], "there is no '-1'"),
            ([*serve, "--limit", "much"], "'much' is neither bytes"),
            ([*serve, "--group", "../x"], "is no name of a group"),
            ([*serve, "--repair"], "give one of"),
            (["--limit", "1GiB"], "go with --serve"),
            (["--allow-uid", "0"], "go with --serve"),
        ):
            self.assert_refused(arguments, words)
        self.assertFalse(self.socket.exists())


class Askers(BrokerTest):
    def inode(self, file):
        return os.fstat(file).st_ino

    def test_what_it_hands_out_cannot_be_truncated(self):
        self.start_broker()
        outcome, _, limit, (region, sign) = self.ask(page=b"as the first member says")
        self.assertEqual((outcome, limit), (HERE, (0, 0)))
        seals = fcntl.fcntl(region, fcntl.F_GET_SEALS)
        self.assertEqual(seals, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        for size in (0, REGION_BYTES - 1, REGION_BYTES + 1):
            with self.assertRaises(PermissionError):
                os.ftruncate(region, size)
        self.assertEqual(os.pread(region, 24, 0), b"as the first member says")
        self.assertEqual(os.fstat(region).st_size, REGION_BYTES)
        with self.assertRaises(OSError):
            os.write(sign, b"x")
        # The same for the next, whatever that one brings.
        outcome, _, _, (again, _) = self.ask(page=b"something else")
        self.assertEqual((outcome, self.inode(again)), (HERE, self.inode(region)))
        self.assertEqual(self.ask(device=b"GPU-1", size=0)[0], NONE)

    def test_three_hundred_at_once_beside_some_who_say_nothing(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        self.start_broker()
        silent = [self.connect() for _ in range(600)]
        start = time.monotonic()
        askers = [self.connect() for _ in range(300)]
        for each in askers:
            self.assertEqual(self.receive(each)[0], ASK)
            each.send(self.question())
        inodes = set()
        for each in askers:
            outcome, _, _, files = self.receive(each)
            self.assertEqual(outcome, HERE)
            inodes.add(self.inode(files[0]))
            for file in files:
                os.close(file)
        self.assertEqual(len(inodes), 1)
        self.assertLess(time.monotonic() - start, 5)
        self.start_member()
        self.assertEqual(len(self.group()["members"]), 1)
        # Those who say nothing are left after five seconds.
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(self.is_open(each) for each in silent):
            time.sleep(0.1)
        self.assertFalse(any(self.is_open(each) for each in silent))

    def is_open(self, connection):
        """Drops what has come, too."""
        connection.setblocking(False)
        try:
            while connection.recv(1000):
                pass
        except BlockingIOError:
            return True
        except ConnectionResetError:
            pass
        return False

    def test_killed_in_the_middle_nobody_is_left(self):
        broker = self.start_broker()
        self.connect().close()
        connection = self.connect()
        connection.send(self.question())
        connection.close()
        connection = self.connect()
        self.receive(connection)
        connection.send(self.question())
        connection.close()  # with descriptors on their way
        _, _, _, files = self.ask()
        self.end(broker)
        self.assertIn("members of a former broker", self.run_share("--serve", self.socket)[2])
        for each in files:
            os.close(each)
        self.start_broker()

    def test_hostile_bytes(self):
        self.start_broker()
        good = self.question()
        chance = random.Random(7)
        for i in range(2000):
            noise = bytearray(good)
            if i % 3 == 0:
                noise = bytearray(chance.randbytes(chance.randrange(0, 6000)))
            elif i % 3 == 1:
                del noise[chance.randrange(len(noise)) :]
            else:
                for _ in range(chance.randrange(1, 40)):
                    noise[chance.randrange(152)] = chance.randrange(256)
            connection = self.connect()
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                connection.send(noise)
                self.receive(connection)
                with contextlib.suppress(struct.error):  # nothing more
                    self.assertIn(self.receive(connection)[0], (REFUSED, HERE, NONE))
            connection.close()
        for question, words in (
            ({"magic": b"nonsense"}, "this is no question"),
            ({"version": 2}, "it knows version 1"),
            ({"group": b"a/b"}, "makes no sense"),
            ({"group": b"x" * 64}, "makes no sense"),
            ({"device": b""}, "makes no sense"),
            ({"device": b"a:b"}, "makes no sense"),
            ({"device": b"new", "size": 1 << 40}, "Invalid argument"),
            ({"device": b"new", "size": 100}, "Invalid argument"),
        ):
            outcome, message, _, files = self.ask(**question)
            self.assertEqual((outcome, files), (REFUSED, []), question)
            self.assertIn(words, message)
        self.start_member()
        self.assertEqual(len(self.group()["members"]), 1)

    def test_there_is_an_end_to_regions(self):
        self.start_broker()
        for number in range(256):
            outcome, message, _, files = self.ask(device=b"GPU-%d" % number)
            self.assertEqual(outcome, HERE, message)
            for each in files:
                os.close(each)
        outcome, message, _, _ = self.ask(device=b"GPU-256")
        self.assertEqual((outcome, message), (REFUSED, "it can make no region: No space left on device"))
        self.assertEqual(self.ask(device=b"GPU-255")[0], HERE)


if __name__ == "__main__":
    unittest.main()
