#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at processes with gpupool top. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library, FAKE_NVML the
stand-in for NVIDIA's management library."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from command import MIB, run
from control_target import needs_another_user, run_as_nobody
from top_target import GIB, HOLDS_2_GIB, TopTest

# Grows and shrinks without end, on two threads.
HAMMERS = """
import threading
pool = default_pool()
def work(size):
    while True:
        blocks = [take(pool, size * (1 + step % 7)) for step in range(40)]
        for block in blocks:
            lib.gpupool_free(pool, block, 0)
        lib.gpupool_empty(pool, None)
for size in (3 << 20, 5 << 12):
    threading.Thread(target=work, args=(size,), daemon=True).start()
stay()
"""

# A page that is none of the library's: what its argument says.
FOREIGN = """
import os, struct, sys
page = os.memfd_create("gpupool-stats")
def header(layout=1, slots=63, used=1, process=os.getpid()):
    return struct.pack("<8sIIIIQII32s", b"GPUPOOLS", layout, 1024, 1024, slots, process, used, 0, b"9.9.9")
kinds = {
    "empty": b"",
    "noise": os.urandom(65536),
    "newer": header(layout=2).ljust(65536, b"\\0"),
    "short": header().ljust(1500, b"\\0"),
    "busy": header().ljust(1024, b"\\0") + b"\\1".ljust(64512, b"\\0"),
}
os.write(page, kinds[sys.argv[1]])
print("ready", flush=True)
sys.stdin.read()
"""



class Seen(TopTest):
    def test_processes_are_seen_and_a_killed_one_vanishes(self):
        first, second = self.start_pool(), self.start_pool(POOL_NAME="second")
        _, processes = self.objects()
        self.assertLessEqual({first.pid, second.pid}, set(processes))
        shown = processes[second.pid]
        self.assertEqual((shown["uid"], shown["inner_pid"]), (os.geteuid(), second.pid))
        self.assertTrue(shown["command"].startswith(os.path.basename(sys.executable)), shown["command"])
        (pool,) = shown["pools"]
        self.assertEqual((pool["name"], pool["device"], pool["device_bytes"]), ("second", "sim:0", 8 * GIB))
        self.assertEqual((pool["live_bytes"], pool["live_blocks"], pool["reserved_bytes"]), (2 * GIB, 1, 2 * GIB))
        self.assertEqual(pool["tags"], [{"tag": "kv cache", "live_bytes": 2 * GIB}])
        self.assertLess(pool["age_seconds"], 100)
        self.assertGreater(pool["driver_calls"], 0)
        first.kill()
        first.wait()
        _, processes = self.objects()
        self.assertNotIn(first.pid, processes)
        self.assertIn(second.pid, processes)
        left = [path.name for path in pathlib.Path("/dev/shm").iterdir() if "gpupool-stats" in path.name]
        self.assertEqual(left, [])

    def test_the_table_is_plain_without_a_terminal(self):
        process = self.start_pool(POOL_NAME="weights")
        lines = self.table(process)
        self.assertRegex(
            lines[0], r"^gpupool top  \d\d:\d\d:\d\d  1 process, 1 pool: 2 GiB live, 0 B cached, 2 GiB res"
        )
        self.assertEqual(lines[1].split()[:7], ["PID", "USER", "POOL", "DEVICE", "LIVE", "PENDING", "CACHED"])
        self.assertIn(" weights ", lines[2])
        self.assertIn(" kv cache 2 GiB ", lines[2])
        self.assertEqual(len(lines), 3)
        self.assertNotIn("\x1b", "".join(lines))

    def test_without_a_terminal_it_looks_again_and_again(self):
        process = self.start_pool()
        top = self.start_top("--pid", str(process.pid), "-i", "0.1", stdout=subprocess.PIPE)
        lines = [top.stdout.readline() for _ in range(7)]
        self.assertEqual(lines[3], "\n")
        self.assertIn("STEALS ", lines[1])
        self.assertIn("STEALS/S ", lines[5])
        self.assertIn(str(process.pid), lines[6])

    def test_a_pool_on_a_group_shows_what_the_group_uses(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool_top_")
        self.addCleanup(folder.cleanup)
        device = f"test-top-{os.getpid()}"
        for path in pathlib.Path("/dev/shm").glob(f"gpupool-{os.geteuid()}.sim-{device}-*"):
            self.addCleanup(path.unlink)
        group = {"GPUPOOL_SHARE": "team", "GPUPOOL_SHARE_DIR": folder.name, "GPUPOOL_SIM_SHARED": device}
        first, second = self.start_pool(**group), self.start_pool(**group)
        self.addCleanup(lambda: [path.unlink() for path in pathlib.Path("/dev/shm").glob(f"*.sim-{device}-*")])
        shown = self.seen(second)["pools"][0]["group"]
        self.assertEqual((shown["name"], shown["used_bytes"], shown["limit_bytes"]), ("team", 4 * GIB, 8 * GIB))
        self.assertIn("team 4 GiB of 8 GiB", self.table(second)[2])
        self.assertIn("team 2 GiB of 8 GiB", self.table(first)[2])  # as old as its own figures

    def test_what_is_not_ours_is_told_by_nvml(self):
        process = self.start_pool()
        nvml = {
            "GPUPOOL_LIBNVML": os.environ["FAKE_NVML"],
            "FAKE_NVML_ID": "sim-0",
            "FAKE_NVML_USERS": f"{process.pid}:{3 * GIB},1:{GIB}",
        }
        gpus, processes = self.objects("--pid", str(process.pid), **nvml)
        self.assertEqual(
            [(gpu["gpu"], gpu["used_bytes"], gpu["total_bytes"]) for gpu in gpus], [("sim-0", 4 * GIB, 8 * GIB)]
        )
        self.assertEqual(gpus[0]["pools_bytes"], 2 * GIB)
        self.assertEqual(processes[process.pid]["gpus"], [{"gpu": "sim-0", "used_bytes": 3 * GIB, "other_bytes": GIB}])
        lines = self.table(process, **nvml)
        self.assertEqual(lines[1], "GPU 0 Stand-in GPU: 4 GiB of 8 GiB used, 2 GiB in these pools, 2 GiB by others")
        # More processes than the library asks for at first.
        nvml["FAKE_NVML_USERS"] += "".join(f",{100000 + number}:1" for number in range(400))
        gpus, processes = self.objects("--pid", str(process.pid), **nvml)
        self.assertEqual(processes[process.pid]["gpus"][0]["used_bytes"], 3 * GIB)
        # A driver that answers nothing is as good as none.
        del nvml["FAKE_NVML_ID"]
        self.assertEqual(self.objects("--pid", str(process.pid), **nvml)[0], [])


class Chosen(TopTest):
    def setUp(self):
        super().setUp()
        both = """
pool, other = default_pool(), ctypes.c_void_p()
assert lib.gpupool_create(None, ctypes.byref(other)) == 0
for each, name, tag, size in ((pool, b"weights", b"loading", 1 << 20), (other, b"cache", b"serving", 1 << 30)):
    lib.gpupool_set_name(each, name)
    lib.gpupool_tag_push(tag)
    take(each, size)
    lib.gpupool_tag_pop()
stay()
"""
        self.both = self.start_pool(both)
        self.one = self.start_pool(HOLDS_2_GIB, POOL_NAME="lonely")

    def names(self, *arguments):
        """(process, pool's name) of ours, in the order of the table."""
        code, out, err = self.run_top(*arguments)
        self.assertEqual((code, err), (0, ""))
        ours = {str(self.both.pid): "both", str(self.one.pid): "one"}
        rows = [line.split() for line in out.splitlines()[1:]]
        return [(ours[row[0]], row[2]) for row in rows if row and row[0] in ours]

    def test_processes_without_pools_are_named_by_nvml(self):
        process = self.start_pool()
        strangers = [subprocess.Popen(["sleep", "60"]) for _ in range(5)]
        for each in strangers:
            self.addCleanup(each.wait)
            self.addCleanup(each.kill)
        users = [(each.pid, (number + 1) * MIB) for number, each in enumerate(strangers)] + [(process.pid, 3 * GIB)]
        nvml = {
            "GPUPOOL_LIBNVML": os.environ["FAKE_NVML"],
            "FAKE_NVML_ID": "sim-0",
            "FAKE_NVML_USERS": ",".join(f"{pid}:{used}" for pid, used in users),
        }
        gpus, _ = self.objects(**nvml)
        self.assertEqual(
            gpus[0]["without_pools"],
            [{"pid": pid, "command": "sleep 60", "used_bytes": used} for pid, used in reversed(users[:-1])],
        )
        shown = run("top", "--once", environment=nvml)[1].splitlines()
        self.assertEqual(
            shown[2:5], [f"  {pid} (sleep 60): {used // MIB} MiB, no pool seen" for pid, used in users[4:1:-1]]
        )
        gpus, _ = self.objects("--name", "nothing", **nvml)
        self.assertEqual(gpus[0]["without_pools"], [])
        gpus, _ = self.objects("--pid", str(process.pid), **nvml)
        self.assertEqual(gpus[0]["without_pools"], [])

    def test_pools_are_chosen(self):
        user = str(os.geteuid())
        for arguments, wanted in (
            ((), [("one", "lonely"), ("both", "weights"), ("both", "cache")]),
            (("--name", "cache"), [("both", "cache")]),
            (("--name", "e"), [("one", "lonely"), ("both", "weights"), ("both", "cache")]),
            (("--tag", "serv"), [("both", "cache")]),
            (("--tag", "kv", "--user", user), [("one", "lonely")]),
            (("--pid", str(self.both.pid), "--tag", "ing"), [("both", "weights"), ("both", "cache")]),
            (("--user", "54321"), []),
            (("--device", "cuda"), []),
            (("--device", "sim:0", "--name", "weights"), [("both", "weights")]),
            (("--device", "sim", "--name", "weights"), [("both", "weights")]),
        ):
            with self.subTest(arguments):
                self.assertEqual(self.names(*arguments), wanted)

    def test_pools_come_in_the_order_that_is_asked_for(self):
        first = min((self.both, "both"), (self.one, "one"), key=lambda each: each[0].pid)[1]
        self.assertEqual([name for _, name in self.names("--sort", "live")], ["lonely", "cache", "weights"])
        self.assertEqual([name for _, name in self.names("--sort", "name")], ["cache", "lonely", "weights"])
        self.assertEqual(self.names("--sort", "pid")[0][0], first)
        self.assertEqual(len(self.names("--sort", "recent")), 3)
        code, _, err = self.run_top("--sort", "colour")
        self.assertEqual(code, 2)
        self.assertIn("reserved", err)

    def test_totals_and_json_have_only_what_was_chosen(self):
        _, processes = self.objects("--name", "weights")
        self.assertEqual([pool["name"] for pool in processes[self.both.pid]["pools"]], ["weights"])
        self.assertNotIn(self.one.pid, processes)
        lines = self.run_top("--pid", str(self.both.pid), "--name", "weights")[1].splitlines()
        self.assertIn("1 process, 1 pool: 1 MiB live", lines[0])

    def test_what_is_not_ours_counts_all_pools_of_the_process(self):
        nvml = {
            "GPUPOOL_LIBNVML": os.environ["FAKE_NVML"],
            "FAKE_NVML_ID": "sim-0",
            "FAKE_NVML_USERS": f"{self.both.pid}:{3 * GIB}",
        }
        _, processes = self.objects("--name", "weights", **nvml)
        (gpu,) = processes[self.both.pid]["gpus"]
        self.assertLess(gpu["other_bytes"], 2 * GIB)

    def test_metrics_for_prometheus(self):
        code, out, err = self.run_top("--prometheus", "--pid", str(self.both.pid))
        self.assertEqual((code, err), (0, ""))
        self.check_metrics(out)
        labels = f'device="sim:0",UUID="sim-0",pool="2",pid="{self.both.pid}"'
        self.assertIn(f"gpupool_live_bytes{{{labels}}} {GIB}\n", out)
        self.assertIn(f'gpupool_tag_live_bytes{{{labels},tag="serving"}} {GIB}\n', out)
        self.assertRegex(out, rf'gpupool_pool_info\{{{labels},version="[0-9.]+",name="cache",user="[^"]+",command="')
        self.assertNotIn(str(self.one.pid), out)
        self.assertEqual(self.run_top("--prometheus", "--json")[0], 2)

    def check_metrics(self, text):
        """The rules of the format: families together, one type each, no series twice, sums that mean something."""
        self.assertTrue(text.endswith("\n"))
        seen, family, series = set(), None, set()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split()[2]
                self.assertNotIn(family, seen)
                seen.add(family)
            elif line.startswith("# TYPE "):
                self.assertEqual(line.split()[2], family)
                self.assertEqual(line.split()[3] == "counter", family.endswith("_total"))
            else:
                name, value = line.rsplit(" ", 1)
                self.assertTrue(name.startswith(family + "{"))
                self.assertNotIn(name, series)
                series.add(name)
                float(value)
        parts = [
            sum(int(line.split()[-1]) for line in text.splitlines() if line.startswith(f"gpupool_{part}_bytes{{"))
            for part in ("live", "pending", "cached", "slack", "reserved")
        ]
        self.assertEqual(sum(parts[:4]), parts[4])

    def test_hostile_names_break_no_metrics(self):
        process = self.start_pool(POOL_NAME='"\\\n} 1\udcff')
        out = self.run_top("--prometheus", "--pid", str(process.pid))[1]
        self.check_metrics(out)
        self.assertIn('name="\\"\\\\\\n} 1\ufffd"', out)

    def test_metrics_are_served(self):
        server = self.start_top("--prometheus", "--listen", "127.0.0.1:0", "--name", "lonely", stderr=subprocess.PIPE)
        port = re.search(r"port (\d+)", server.stderr.readline()).group(1)
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                text = answer.read().decode()
            self.check_metrics(text)
            self.assertIn(f'pid="{self.one.pid}"}} {2 * GIB}\n', text)
            self.assertNotIn(str(self.both.pid), text)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(30), 0)


class NotSeen(TopTest):
    def test_a_process_hides_with_the_switch(self):
        process = self.start_pool(GPUPOOL_STATS="0")
        self.assertIsNone(self.seen(process))
        self.assertIn("no process that this one may look into uses gpupool", self.table(process)[0])

    @needs_another_user
    def test_another_users_process_is_passed_over(self):
        process = self.start_pool()
        self.assertIsNotNone(self.seen(process))
        done = run_as_nobody("top", "--once", "--json")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_child_that_inherits_the_page_is_not_its_parent(self):
        parent = self.start_pool(
            """
import subprocess
pool = default_pool()
take(pool, 1 << 20)
files = [int(name) for name in os.listdir("/proc/self/fd")]
def is_page(file):
    try:
        return "gpupool-stats" in os.readlink(f"/proc/self/fd/{file}")
    except OSError:
        return False
page = [file for file in files if is_page(file)]
assert len(page) == 1
child = subprocess.Popen(["sleep", "60"], pass_fds=page)
stay()
child.kill()
"""
        )
        _, processes = self.objects()
        owners = [pid for pid, each in processes.items() if each["inner_pid"] == parent.pid]
        self.assertEqual(owners, [parent.pid])
        parent.stdin.close()
        parent.wait()


class Untrusted(TopTest):
    def test_hostile_names_have_no_power(self):
        evil = "\x1b[31mevil\r\x07\u202e\udc9b"
        process = self.start_pool(name="/bin/" + evil, POOL_NAME=evil)
        code, out, _ = self.run_top("--pid", str(process.pid))
        self.assertEqual(code, 0)
        self.assertIn("?[31mevil", out)
        for character in out:
            self.assertTrue(character == "\n" or (character.isprintable() and character != "\u202e"), repr(out))
        shown = self.seen(process)
        self.assertTrue(shown["command"].startswith("\x1b[31mevil"))
        self.assertTrue(shown["pools"][0]["name"].startswith("\x1b[31mevil"))

    def test_pages_that_are_none_are_named_in_one_line(self):
        words = {
            "empty": "it is cut short",
            "noise": "it is none, or not whole yet",
            "newer": "it has layout 2, of another version of gpupool than this command's",
            "short": "it is cut short",
        }
        for kind, why in words.items():
            with self.subTest(kind):
                process = self.start(FOREIGN, kind)
                lines = self.table(process)
                self.assertEqual(len(lines), 2)
                self.assertRegex(lines[1], rf"^{process.pid} \(.*\): its page cannot be read: {re.escape(why)}$")
                self.assertEqual(self.seen(process)["error"], why)

    def test_a_writer_that_stopped_in_the_middle_holds_up_nobody(self):
        process = self.start(FOREIGN, "busy")
        self.assertEqual((self.seen(process)["pools_busy"], self.seen(process)["pools"]), (1, []))
        self.assertIn("1 pools were being written", self.table(process)[1])

    def test_figures_belong_together_while_they_are_written(self):
        process = self.start_pool(HAMMERS)
        values = set()
        for _ in range(150):
            (pool,) = self.seen(process)["pools"]
            parts = pool["live_bytes"] + pool["pending_bytes"] + pool["cached_bytes"] + pool["slack_bytes"]
            self.assertEqual(parts, pool["reserved_bytes"])
            self.assertLessEqual(pool["live_bytes"], pool["live_peak_bytes"])
            self.assertLessEqual(pool["reserved_bytes"], pool["reserved_peak_bytes"])
            values.add(pool["misses"])
        self.assertGreater(len(values), 100)

    def test_processes_may_end_while_they_are_looked_at(self):
        hammer = self.start_pool(
            """
def child():
    take(default_pool(), 1 << 20)
    os._exit(0)
print("ready", flush=True)
while True:
    pids = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            child()
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
"""
        )
        for _ in range(100):
            code, out, err = self.run_top("--json")
            self.assertEqual((code, err), (0, ""))
            for line in out.splitlines():
                json.loads(line)
        self.assertIsNone(hammer.poll())

    def test_bad_options_are_refused(self):
        for arguments in (["--interval", "0"], ["--interval", "often"], ["--pid", "-3"], ["extra"]):
            code, out, err = self.run_top(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn(arguments[0], err.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
