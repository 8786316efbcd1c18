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

from control_target import NOBODY, needs_another_user
from test_share import COMMAND, GIB, MEMBER, SIGNALS, ShareTest, needs_strace

# As src/share/broker.hpp has them.
MAGIC = b"gpbroker"
SAYS = struct.Struct("<8sIIQII128s")
ASKS = struct.Struct("<8sII64s64sQ4096s")
REFUSED, ASK, HERE, NONE = range(4)
# What a region begins with, as src/share/region.hpp has it: magic, versions, sizes, device, limit.
BEGIN = struct.Struct("<8sIIIIIIQQq64s8xQ")
REGION_BYTES = 4096 + 256 * 320
ALICE, BOB = 12345, 12346
MOST_OF_USER = 64


def begin_of(device, size=REGION_BYTES, **changes):
    """The first bytes of a region, as a member asks for them."""
    fields = {"magic": b"gpshare\n", "major": 1, "minor": 0, "header": 4096, "slot": 320, "slots": 256} | changes
    return BEGIN.pack(*fields.values(), 0, size, 8 * GIB, 0, device, 8 * GIB // 512)


# What a member of another user does before its first pool: the library was loaded by then.
BECOME = """
user, groups = os.environ.get("TEST_USER"), os.environ.get("TEST_GROUPS", "")
if user:
    os.setgroups([int(each) for each in groups.split(",") if each])
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))
u64 = ctypes.c_uint64
"""


def has_region(pid):
    """Whether a process has a region open."""
    links = [os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    return any("gpupool-share" in each for each in links)


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

    def start_with_manager(self):
        """A service manager's socket, and a broker that says there that it is ready."""
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.settimeout(60)
        manager.bind(str(self.folder / "notify"))
        broker = self.start_broker(environment={"NOTIFY_SOCKET": str(self.folder / "notify")})
        self.assertEqual(manager.recv(100), b"READY=1")
        return manager, broker

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

    def question(self, group=b"team", device=b"GPU-0", size=REGION_BYTES, page=None, magic=MAGIC, version=1):
        return ASKS.pack(magic, version, 0, group, device, size, begin_of(device) if page is None else page)

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

    def start_as_alice(self, *arguments, before=()):
        """A broker of hers, in a folder of hers."""
        os.chown(self.folder, ALICE, ALICE)
        code = "import os, sys; os.setgroups([]); os.setgid({0}); os.setuid({0}); os.execvp(sys.argv[1], sys.argv[1:])"
        be_her = [sys.executable, "-c", code.format(ALICE), *before]
        for needs in (["true"], ["/bin/test", "-x", COMMAND]):
            if subprocess.run([*be_her, *needs], capture_output=True, check=False).returncode != 0:
                self.skipTest("the build's folder is root's own, or the system allows no namespaces")
        return self.start([*be_her, COMMAND, "share", "--serve", self.socket, *arguments])

    @needs_another_user
    def test_a_broker_of_a_user_without_rights(self):
        self.start_as_alice(f"--allow-uid={BOB}")
        self.start_member(BOB)
        self.start_member(ALICE)
        self.start_member(0)
        self.assertEqual({each["uid"] for each in self.group()["members"]}, {0, ALICE, BOB})

    @needs_another_user
    def test_a_user_whom_its_namespace_does_not_know_is_not_nobody(self):
        self.environment["GPUPOOL_SIM"] = "capacity=16GiB,data=0"
        self.start_as_alice(f"--allow-uid={NOBODY}", before=("unshare", "-U", "--map-current-user"))
        self.assert_alone(f"user {NOBODY} is not allowed", TEST_USER=str(BOB))
        self.start_member(ALICE)


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
        manager, broker = self.start_with_manager()
        first = self.start_member()
        text, (kept,), _, _ = socket.recv_fds(manager, 1000, 1)
        self.addCleanup(os.close, kept)
        name = f"team/sim-{self.device}-0/{os.geteuid()}"
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
        outcome, _, limit, (region, sign) = self.ask()
        self.assertEqual((outcome, limit), (HERE, (0, 0)))
        seals = fcntl.fcntl(region, fcntl.F_GET_SEALS)
        self.assertEqual(seals, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        for size in (0, REGION_BYTES - 1, REGION_BYTES + 1):
            with self.assertRaises(PermissionError):
                os.ftruncate(region, size)
        self.assertEqual(os.pread(region, BEGIN.size, 0), begin_of(b"GPU-0"))
        self.assertEqual(os.fstat(region).st_size, REGION_BYTES)
        with self.assertRaises(OSError):
            os.write(sign, b"x")
        # The same for the next, whatever that one brings.
        outcome, _, _, (again, _) = self.ask(page=begin_of(b"GPU-0", slots=1))
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
            ({"device": b"new", "size": 1 << 40}, "a region has 86016 bytes, not 1099511627776"),
            ({"device": b"new", "size": 100}, "a region has 86016 bytes, not 100"),
        ):
            outcome, message, _, files = self.ask(**question)
            self.assertEqual((outcome, files), (REFUSED, []), question)
            self.assertIn(words, message)
        self.start_member()
        self.assertEqual(len(self.group()["members"]), 1)

    def test_a_first_asker_cannot_spoil_a_device(self):
        self.start_broker()
        device = b"sim-%s-0" % self.device.encode()
        for question, words in (
            ({"size": 1 << 20}, "a region has 86016 bytes, not 1048576"),
            ({"size": 4096}, "a region has 86016 bytes, not 4096"),
            ({"page": b"\xff" * 4096}, "another layout"),
            ({"page": begin_of(device, major=2)}, "another layout"),
            ({"page": begin_of(device, slot=256)}, "another layout"),
            ({"page": begin_of(device, size=1 << 20)}, "another layout"),
            ({"page": begin_of(b"another")}, "another layout"),
        ):
            outcome, message, _, files = self.ask(device=device, **question)
            self.assertEqual((outcome, files), (REFUSED, []), question)
            self.assertIn(words, message)
        # What a member writes there while it works is not for the first to bring.
        outcome, _, _, (region, _) = self.ask(device=device, page=begin_of(device).ljust(4096, b"\xff"))
        self.assertEqual(outcome, HERE)
        self.assertEqual(os.pread(region, REGION_BYTES, 0), begin_of(device).ljust(REGION_BYTES, b"\0"))
        self.start_member()
        self.assertEqual(len(self.group()["members"]), 1)


class Ends(BrokerTest):
    """When a region goes, and how many a user may have."""

    def end_of(self, files):
        for each in files:
            os.close(each)

    def test_groups_that_have_ended_take_no_place(self):
        self.start_broker()
        for number in range(300):
            outcome, message, _, files = self.ask(group=b"job-%d" % number)
            self.assertEqual(outcome, HERE, message)
            self.end_of(files)
        self.start_member(GPUPOOL_SHARE="job-300")

    def test_a_region_goes_some_time_after_its_last_member(self):
        manager, broker = self.start_with_manager()
        first = self.start_member()
        second = self.start_member()
        self.assertEqual(manager.recv(200)[:9], b"FDSTORE=1")
        self.end(first)
        self.end(second)
        # It is there until the device must have shown what the dead had as free.
        start = time.monotonic()
        self.assertEqual(self.group()["used_bytes"], 6 * GIB)
        name = f"team/sim-{self.device}-0/{os.geteuid()}"
        self.assertEqual(manager.recv(200).decode(), f"FDSTOREREMOVE=1\nFDNAME={name}")
        self.assertGreater(time.monotonic() - start, 10)
        # The broker closes it right after it has said so.
        deadline = time.monotonic() + 10
        while has_region(broker.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(has_region(broker.pid))
        self.assert_refused([], "nobody has joined the group yet")
        self.start_member()
        self.assertEqual(self.group()["used_bytes"], 3 * GIB)

    def test_a_region_in_use_stays(self):
        self.start_broker()
        _, _, _, (region, sign) = self.ask()
        for number in range(2 * MOST_OF_USER):
            self.end_of(self.ask(group=b"job-%d" % number)[3])
        _, _, _, (again, other) = self.ask()
        self.assertEqual(os.fstat(again).st_ino, os.fstat(region).st_ino)
        self.end_of((again, other, region, sign))

    def test_there_is_an_end_to_the_regions_of_a_user(self):
        self.start_broker("--group", "team")
        held = [self.ask(device=b"GPU-%d" % number) for number in range(MOST_OF_USER)]
        self.assertEqual({each[0] for each in held}, {HERE})
        outcome, message, _, _ = self.ask(device=b"another")
        self.assertEqual((outcome, message), (REFUSED, "user 0 has 64 regions, as many as a user may"))
        self.assertEqual(self.ask(device=b"GPU-0")[0], HERE)
        self.end_of(held[7][3])
        self.assertEqual(self.ask(device=b"another")[0], HERE)

    @needs_another_user
    def test_one_user_takes_no_other_users_place(self):
        self.start_broker("--allow-uid", f"{ALICE},{BOB}")
        flood = self.start_flood(ALICE, 300, self.question(device=b"GPU-NUMBER"))
        self.assertEqual(flood.stdout.readline(), f"{MOST_OF_USER}\n")
        self.start_member(BOB)
        self.start_member()

    def start_flood(self, user, count, question=b"", **options):
        """Another user's process that connects so often, asks, keeps what it is handed, and says how often it was."""
        flood = subprocess.Popen(
            [sys.executable, "-c", FLOOD, str(user), str(count), str(self.socket), question.hex()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options,
        )  # fmt: skip
        for each in (flood.stdout.close, flood.wait, flood.stdin.close, flood.kill):
            self.addCleanup(each)
        return flood

    def start_with(self, limit, value, *arguments):
        def lower():
            resource.setrlimit(limit, (value, value))

        return self.start([COMMAND, "share", "--serve", self.socket, *arguments], preexec_fn=lower)

    @needs_another_user
    def test_descriptors_that_one_user_takes_are_no_others(self):
        self.start_with(resource.RLIMIT_NOFILE, 64, "--allow-uid", f"{ALICE},{BOB}")
        flood = self.start_flood(ALICE, 300)
        self.assertEqual(flood.stdout.readline(), "0\n")
        start = time.monotonic()
        for user in (BOB, 0, BOB):
            self.start_member(user)
        self.assertEqual(len(self.group()["members"]), 3)
        self.assertLess(time.monotonic() - start, 5, "they waited for the flood to end")
        regions = self.start_flood(ALICE, 60, self.question(device=b"GPU-NUMBER"))
        self.assertGreater(int(regions.stdout.readline()), 0)
        self.start_member(BOB, GPUPOOL_SHARE="other")

    def test_a_limit_on_files_does_not_end_it(self):
        self.environment["GPUPOOL_SIM"] = "capacity=16GiB,data=0"
        broker = self.start_broker()
        _, most = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (REGION_BYTES - 1, most))
        self.assert_alone("its broker refuses: it can make no region: File too large")
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (REGION_BYTES, most))
        self.start_member()
        self.assertIsNone(broker.poll())

    def test_where_no_region_can_be_made_it_does_not_start(self):
        lower = ["prlimit", "--fsize=65536:", "--", COMMAND, "share", "--serve", self.socket]
        self.start(lower)  # it may raise its limit
        self.start_member()
        lower = ["prlimit", "--fsize=65536:65536", "--", COMMAND, "share", "--serve", str(self.folder / "other")]
        done = subprocess.run(lower, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("a file may have 65536 bytes (ulimit -f), and a region has 86016", done.stderr)


# What a hostile user does; the number of each question replaces the word in it.
FLOOD = """
import os, socket, sys
user, count, path, question = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], bytes.fromhex(sys.argv[4])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
kept, handed = [], 0
for number in range(count):
    each = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    each.settimeout(10)
    each.connect(path)
    kept.append(each)
    if not question:
        continue
    each.recv(1000)
    each.send(question.replace(b"NUMBER", b"%06d" % number))
    data, files, _, _ = socket.recv_fds(each, 1000, 4)
    handed += len(files) == 2
print(handed, flush=True)
sys.stdin.read()
"""


if __name__ == "__main__":
    unittest.main()
