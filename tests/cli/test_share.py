#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inspects, changes and tests groups of processes. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND = os.environ["GPUPOOL_COMMAND"]
MIB = 1 << 20
GIB = 1 << 30

# A member that holds 2 GiB live and 1 GiB cached, says so, and stays.
MEMBER = """
import ctypes, os, sys
lib = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
lib.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
lib.gpupool_free.argtypes = [ctypes.c_void_p, u64, u64]
pool = ctypes.c_void_p()
assert lib.gpupool_default_pool(0, ctypes.byref(pool)) == 0
live, cached = u64(), u64()
assert lib.gpupool_malloc(pool, 2 << 30, 0, ctypes.byref(live)) == 0
assert lib.gpupool_malloc(pool, 1 << 30, 0, ctypes.byref(cached)) == 0
assert lib.gpupool_free(pool, cached, 0) == 0
print("ready", flush=True)
sys.stdin.read()
"""


# Makes each second call that takes room fail as a signal does; -D, so that the program itself is the child.
SIGNALS = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fallocate:error=EINTR:when=1+2"]


def may_trace():
    try:
        return subprocess.run([*SIGNALS, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


needs_strace = unittest.skipUnless(may_trace(), "no strace is here (tools/setup.sh installs it), or it may not trace")


class ShareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool_share_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.device = f"test-share-{os.getpid()}"
        self.environment = os.environ | {
            "GPUPOOL_BACKEND": "sim",
            "GPUPOOL_SIM": "capacity=8GiB,data=0",
            "GPUPOOL_SIM_SHARED": self.device,
            "GPUPOOL_SHARE_DIR": str(self.folder),
        }
        for variable in ("GPUPOOL_SHARE", "GPUPOOL_SHARE_LIMIT"):
            self.environment.pop(variable, None)
        self.addCleanup(self.remove_device)

    def remove_device(self):
        for path in pathlib.Path("/dev/shm").glob(f"gpupool-{os.geteuid()}.sim-{self.device}-*"):
            path.unlink()

    def run_share(self, *arguments, **environment):
        done = subprocess.run(
            [COMMAND, "share", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=self.environment | environment,
        )
        return done.returncode, done.stdout, done.stderr

    def listed(self, *arguments, **environment):
        code, out, err = self.run_share("--list", "--json", *arguments, **environment)
        self.assertEqual((code, err), (0, ""))
        return [json.loads(line) for line in out.splitlines()]

    def start_member(self, group, tracer=(), **environment):
        member = subprocess.Popen(
            [*tracer, sys.executable, "-c", MEMBER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment | {"GPUPOOL_SHARE": group} | environment,
        )
        self.addCleanup(member.stdout.close)
        self.addCleanup(member.wait)
        self.addCleanup(member.stdin.close)
        self.addCleanup(member.kill)
        self.assertEqual(member.stdout.readline(), "ready\n")
        return member

    def assert_refused(self, arguments, words, **environment):
        code, out, err = self.run_share(*arguments, **environment)
        self.assertEqual((code, out), (2, ""), arguments)
        self.assertIn(words, err)
        self.assertEqual(err.count("\n"), 1, err)


class List(ShareTest):
    @needs_strace
    def test_a_signal_costs_no_member(self):
        member = self.start_member("team", SIGNALS)
        (group,) = self.listed()
        self.assertEqual([each["pid"] for each in group["members"]], [member.pid])

    def test_members_are_listed_with_their_figures(self):
        first = self.start_member("team", GPUPOOL_SHARE_GUARANTEED="4GiB", GPUPOOL_SHARE_PRIORITY="2")
        second = self.start_member("team")
        (group,) = self.listed()
        self.assertEqual((group["group"], group["device"]), ("team", "sim:0"))
        self.assertEqual(group["path"], str(self.folder / f"team.sim-{self.device}-0"))
        self.assertEqual((group["limit_bytes"], group["total_bytes"]), (8 * GIB, 8 * GIB))
        self.assertEqual(group["used_bytes"], sum(each["charged_bytes"] for each in group["members"]))
        members = {each["pid"]: each for each in group["members"]}
        self.assertEqual(set(members), {first.pid, second.pid})
        sure, plain = members[first.pid], members[second.pid]
        self.assertEqual((sure["guaranteed_bytes"], sure["charged_bytes"]), (4 * GIB, 4 * GIB))
        self.assertEqual((sure["priority"], plain["priority"]), (2, 0))
        self.assertEqual((plain["reserved_bytes"], plain["state"], plain["waits"]), (3 * GIB, "live", False))
        self.assertEqual(plain["uid"], os.geteuid())
        code, out, _ = self.run_share()
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^team on sim:0: 7 GiB of 8 GiB used, 0 B in limbo, .* the device has 8 GiB$")
        self.assertEqual(
            lines[1].split(),
            "slot pid name state live reserved charged guaranteed limit priority waiting for given taken".split(),
        )
        self.assertIn(str(first.pid), lines[3])
        # Columns are aligned: where a cell of the rule begins or ends, so does one of the title.
        self.assertEqual(len(lines[1].rstrip()), len(lines[2].rstrip()))

    def test_each_group_of_the_folder_has_its_part(self):
        self.start_member("team.a")
        self.start_member("other")
        self.assertEqual([each["group"] for each in self.listed()], ["other", "team.a"])
        self.assertEqual([each["group"] for each in self.listed("--group", "team.a")], ["team.a"])
        self.assertEqual([each["group"] for each in self.listed(GPUPOOL_SHARE="other")], ["other"])
        self.assertEqual([each["group"] for each in self.listed("--device", "sim:0")], ["other", "team.a"])
        self.assertEqual(self.listed("--device", "sim:1"), [])

    def test_what_the_killed_had_is_in_limbo_until_it_is_repaired(self):
        member = self.start_member("team")
        member.kill()
        member.wait()
        (group,) = self.listed()
        self.assertEqual([each["state"] for each in group["members"]], ["limbo"])
        self.assertEqual((group["used_bytes"], group["limbo_bytes"]), (3 * GIB, 3 * GIB))
        code, out, err = self.run_share("--repair", "--group", "team", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(
            json.loads(out),
            {
                "group": "team",
                "device": "sim:0",
                "taken_back_bytes": 3 * GIB,
                "limbo_bytes": 0,
                "off_bytes": 0,
                "used_bytes": 0,
            },
        )
        code, out, _ = self.run_share()
        self.assertEqual((code, out.splitlines()[1]), (0, "no members"))

    def test_a_wrong_sum_is_corrected(self):
        self.start_member("team")
        (group,) = self.listed()
        with open(group["path"], "r+b") as region:
            # The word that all members change: what is used, in its upper half, in units of 512 bytes.
            region.seek(192)
            (word,) = struct.unpack("<Q", region.read(8))
            self.assertEqual((word >> 32) * 512, 3 * GIB)
            region.seek(192)
            region.write(struct.pack("<Q", word + ((GIB // 512) << 32)))
        self.assertEqual(self.listed()[0]["used_bytes"], 4 * GIB)
        code, out, err = self.run_share("--repair", "--group", "team")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("what counted as used was 1 GiB too high, and is corrected: 3 GiB", out)
        self.assertEqual(self.listed()[0]["used_bytes"], 3 * GIB)

    def test_what_a_scribbler_leaves_is_told_as_what_it_is(self):
        member = self.start_member("team")
        member.kill()
        member.wait()
        (group,) = self.listed()
        with open(group["path"], "r+b") as region:
            # All places: whoever has them is dead, and was charged whatever the bytes say.
            region.seek(4096)
            region.write(random.Random(7).randbytes(256 * 320))
        self.assertLessEqual(self.listed()[0]["limbo_bytes"], 3 * GIB)
        code, out, err = self.run_share("--repair", "--group", "team")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("dead members were charged more than 8 GiB, which cannot be: it is cleared, ", out)
        self.assertIn("; what now counts as used: 0 B\n", out)
        self.assertNotIn("taken back", out)
        time.sleep(0.3)  # for the device to have shown it as free, whatever the places say
        code, out, err = self.run_share("--repair", "--group", "team", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertLessEqual(json.loads(out)["taken_back_bytes"], 8 * GIB)
        code, out, err = self.run_share("--repair", "--group", "team")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("0 B taken back from dead members, 0 B still in limbo; what counts as used was right: 0 B", out)

    def test_files_that_are_no_group_do_no_harm(self):
        self.start_member("team")
        (self.folder / f"broken.sim-{self.device}-0").write_bytes(b"gpshare\n" + bytes(100))
        (self.folder / f"broken.sim-{self.device}-0").chmod(0o600)
        (self.folder / "far.GPU-00000000-0000-0000-0000-000000000000").write_bytes(b"")
        (self.folder / "evil\x1b[31m.sim-9999999999999999-0").write_bytes(b"")
        (self.folder / "evil\u009b31m.sim-9999999999999999-0").write_bytes(b"")
        (self.folder / "notes").write_bytes(b"")
        (self.folder / "folder.sim-0").mkdir()
        before = {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}
        groups = {each["group"]: each for each in self.listed()}
        self.assertEqual(len(groups["team"]["members"]), 1)
        self.assertIn("has 108 bytes", groups["broken"]["error"])
        self.assertIn("its device is none that this process sees", groups["far"]["error"])
        self.assertNotIn("notes", groups)
        _, out, _ = self.run_share()
        self.assertNotIn("\x1b", out)
        self.assertNotIn("\x9b", out)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in self.folder.iterdir()})

    def test_nothing_there(self):
        code, out, _ = self.run_share()
        self.assertEqual((code, out), (0, f"no group in {self.folder}\n"))
        self.assertEqual(self.listed(), [])
        missing = str(self.folder / "missing")
        code, out, _ = self.run_share(GPUPOOL_SHARE_DIR=missing)
        self.assertEqual((code, out), (0, f"no group in {missing}\n"))
        self.assert_refused(["--group", "team"], "there is no group team in")
        self.assert_refused(["--device", "sim:999"], "device sim:999: ")


class Set(ShareTest):
    def test_figures_are_set(self):
        member = self.start_member("team")
        (group,) = self.listed()
        slot = str(group["members"][0]["slot"])
        self.assertEqual(self.run_share("--group", "team", "--set", "limit=75%")[0], 0)
        code, out, err = self.run_share(
            "--group", "team", "--json", "--member", slot,
            *("--set", "member-limit=5GiB"), *("--set", "guarantee=4GiB"), *("--set", "priority=-3"),
        )  # fmt: skip
        self.assertEqual((code, err), (0, ""))
        group = json.loads(out)
        (found,) = group["members"]
        self.assertEqual((group["limit_bytes"], group["used_bytes"]), (6 * GIB, 4 * GIB))
        self.assertEqual(
            (found["pid"], found["limit_bytes"], found["guaranteed_bytes"], found["priority"]),
            (member.pid, 5 * GIB, 4 * GIB, -3),
        )
        code, out, _ = self.run_share(
            "--group", "team", "--json", "--member", slot, "--set", "guarantee=0", "--set", "member-limit=0"
        )
        (found,) = json.loads(out)["members"]
        self.assertEqual((found["limit_bytes"], found["guaranteed_bytes"]), (0, 0))

    def test_wrong_figures_change_nothing(self):
        self.start_member("team")
        before = self.listed()
        slot = ["--member", str(before[0]["members"][0]["slot"])]
        team = ["--group", "team"]
        for arguments, words in (
            (["--set", "limit=1GiB"], "which group?"),
            ([*team, "--set", "limit"], "'limit' is no FIGURE=VALUE"),
            ([*team, "--set", "limit="], "is neither bytes such as 60GiB nor a share of the device such as 40%"),
            ([*team, "--set", "limit=lots"], "'lots' is neither bytes"),
            ([*team, "--set", "limit=120%"], "'120%' is neither bytes"),
            ([*team, "--set", "limit=0"], "a group's limit is 0"),
            ([*team, "--set", "limit=999999TiB"], "a group's limit is"),
            ([*team, "--set", "size=1GiB"], "there is no figure 'size'"),
            ([*team, "--set", "guarantee=1GiB"], "say which with --member"),
            ([*team, *slot, "--set", "limit=1GiB"], "limit is the group's"),
            ([*team, *slot, "--set", "priority=high"], "priority is 'high', not a number from -8 to 8"),
            ([*team, *slot, "--set", "priority=9"], "not -8 to 8"),
            ([*team, *slot, "--set", "guarantee=9GiB"], "more than the group's limit"),
            ([*team, *slot, "--set", "priority=1", "--set", "guarantee=most"], "'most' is neither bytes"),
            ([*team, "--member", "255", "--set", "priority=1"], "the group has no member 255"),
            ([*team, *slot], "--member goes with --set"),
            ([*team, "--repair", "--list"], "give one of"),
            (["--group", "nobody", "--set", "limit=1GiB"], "--set limit=1GiB"),
            (["--group", "nobody", "--repair"], "--repair"),
            (["--group", "../team", "--repair"], "--repair"),
        ):
            self.assert_refused(arguments, words)
        self.assertEqual(self.listed(), before)


# A command in PID and mount namespaces of its own; as another user than root, in a user namespace.
CONTAINER = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "--pid", "--mount", "--fork", "--mount-proc"]


def may_enter_namespaces():
    try:
        return subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@unittest.skipUnless(may_enter_namespaces(), "the system allows no namespaces here")
class Containers(ShareTest):
    """Processes that have the same number, each in its own namespace."""

    def start_member(self, group, **environment):
        member = subprocess.Popen(
            [*CONTAINER, "--kill-child", sys.executable, "-c", MEMBER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment | {"GPUPOOL_SHARE": group} | environment,
        )
        self.addCleanup(member.stdout.close)
        self.addCleanup(member.wait)
        self.addCleanup(member.stdin.close)
        self.assertEqual(member.stdout.readline(), "ready\n")
        return member

    def test_f11_members_of_one_number_are_listed(self):
        members = [self.start_member("team") for _ in range(2)]
        (group,) = self.listed()
        self.assertEqual([each["pid"] for each in group["members"]], [1, 1])
        self.assertEqual([each["state"] for each in group["members"]], ["live", "live"])
        self.assertEqual([each["slot"] for each in group["members"]], [0, 1])
        inside = subprocess.run(
            [*CONTAINER, COMMAND, "share", "--list", "--json"],
            capture_output=True,
            check=True,
            env=self.environment,
        )
        self.assertEqual(json.loads(inside.stdout), group)
        members[0].kill()
        members[0].wait()
        # The one inside ends a little later.
        deadline = time.monotonic() + 10
        while len(group["members"]) == 2 and time.monotonic() < deadline:
            self.run_share("--repair", "--group", "team")
            (group,) = self.listed()
        self.assertEqual([(each["slot"], each["state"]) for each in group["members"]], [(1, "live")])

    def test_f11_two_self_tests_at_once(self):
        tests = [
            subprocess.Popen(
                [*CONTAINER, COMMAND, "share", "--selftest", "--device", "sim"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=self.environment,
            )
            for _ in range(2)
        ]
        for test in tests:
            out, _ = test.communicate(timeout=300)
            self.assertEqual((test.returncode, "FAILED" in out), (0, False), out)
        self.assertEqual(list(self.folder.iterdir()), [])


class SelfTest(ShareTest):
    CHECKS = "members asking guarantee waiting killed end".split()

    def test_all_holds_and_nothing_is_left(self):
        code, out, err = self.run_share("--selftest", "--device", "sim", "--json")
        checks = [json.loads(line) for line in out.splitlines()]
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual([each["check"] for each in checks], self.CHECKS)
        self.assertTrue(all(each["holds"] for each in checks), out)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_device_of_its_own_is_removed(self):
        test = subprocess.Popen(
            [COMMAND, "share", "--selftest", "--device", "sim"],
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment | {"GPUPOOL_SIM_SHARED": ""},
        )
        out, _ = test.communicate(timeout=300)
        self.assertEqual(test.returncode, 0, out)
        self.assertEqual([line.split()[:2] for line in out.splitlines()], [["ok", each] for each in self.CHECKS])
        self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"gpupool-*.sim-selftest-{test.pid}-*")), [])

    def test_a_group_that_works_is_left_alone(self):
        self.start_member("team")
        before = self.listed()
        code, out, _ = self.run_share("--selftest", "--device", "sim")
        self.assertEqual(code, 0, out)
        self.assertEqual(self.listed(), before)

    def test_where_nothing_can_be_shared_it_fails_and_says_why(self):
        self.folder.chmod(0o777)
        code, out, err = self.run_share("--selftest", "--device", "sim")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"^FAILED members +a process runs alone: see above\n$")
        self.assertIn("is in a folder that everybody may write to", err)

    def test_a_device_that_is_full_is_named(self):
        self.assert_refused(
            ["--selftest", "--device", "sim"], "the device has only 100 MiB free", GPUPOOL_SIM="capacity=100MiB,data=0"
        )

    def start_until_waiting(self):
        """A test that has come to where one of its processes waits in vain."""
        test = subprocess.Popen(
            [COMMAND, "share", "--selftest", "--device", "sim"],
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.addCleanup(test.stdout.close)
        self.addCleanup(test.wait)
        self.addCleanup(test.kill)
        for line in test.stdout:
            self.assertTrue(line.startswith("ok "), line)
            if line.split()[1] == "guarantee":
                return test
        self.fail("it has ended early")

    def test_it_sees_a_member_that_ends(self):
        test = self.start_until_waiting()
        (group,) = self.listed()
        ended = [each["pid"] for each in group["members"] if each["guaranteed_bytes"] == 0]
        for each in ended:
            os.kill(each, signal.SIGKILL)
        lines = test.stdout.read().splitlines()
        self.assertEqual(test.wait(), 1)
        self.assertRegex(lines[-1], rf"^FAILED (waiting|killed) +process ({ended[0]}|{ended[1]}) has ended$")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_signal_leaves_nothing(self):
        test = self.start_until_waiting()
        test.send_signal(signal.SIGTERM)
        self.assertEqual(test.wait(20), 128 + signal.SIGTERM)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
