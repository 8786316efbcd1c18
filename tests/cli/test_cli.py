#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the gpupool command as its users do. GPUPOOL_COMMAND is its path."""

import gzip
import json
import os
import pathlib
import pickle
import random
import re
import resource
import struct
import subprocess
import tempfile
import unittest

COMMAND = os.environ["GPUPOOL_COMMAND"]
MIB = 1 << 20
RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data"


def run(*arguments):
    """Runs the command; returns exit status, standard output and standard error."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout, done.stderr


def run_with(environment, *arguments):
    """The same with variables of the environment."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    return done.returncode, done.stdout, done.stderr


def rounded(size):
    return (size + 511) // 512 * 512


class Workload:
    """A random trace, with what must be known of it."""

    def __init__(self, events=3000, streams=3, budget=256 * MIB, seed=1):
        pick = random.Random(seed)
        live = {}
        lines = ["# made up"]
        self.peak = now = 0
        for number in range(events):
            size = int(512 * 2 ** pick.uniform(0, 16))
            if live and now + rounded(size) > budget or pick.random() < 0.4 and live:
                name = pick.choice(list(live))
                now -= rounded(live.pop(name))
                lines.append(f"f {name}")
            elif now + rounded(size) <= budget:
                live[number] = size
                now += rounded(size)
                lines.append(f"a {number} {size} {pick.randrange(streams)}")
            self.peak = max(self.peak, now)
        self.live_at_end = len(live)
        self.events = len(lines) - 1
        self.streams = streams
        self.text = "\n".join(lines) + "\n"


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool_cli_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def replay_rows(self, *arguments, status=0):
        code, out, err = run("replay", "--device", "sim", "--json", *arguments)
        self.assertEqual(code, status, err)
        return [json.loads(line) for line in out.splitlines()], err


class Front(CommandTest):
    def test_help_explains_every_command(self):
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        for word in ("info", "replay", "bench", "share", "Examples:", "Exit status"):
            self.assertIn(word, out)
        for command in ("info", "replay", "bench", "share"):
            code, out, _ = run(command, "--help")
            self.assertEqual(code, 0)
            self.assertIn("Examples:", out)
            self.assertLessEqual(max(map(len, out.splitlines())), 110)

    def test_version(self):
        code, out, _ = run("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^gpupool \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_status_2(self):
        trace = self.write("t.trace", "a 1 512 0\nf 1\n")
        for arguments in (
            [],
            ["destroy"],
            ["replay"],
            ["replay", "--passes", "0", trace],
            ["replay", "--passes", "two", trace],
            ["replay", "--cap", "lots", trace],
            ["replay", "--cap", "-1x", trace],
            ["replay", "--max-chunk", "0", trace],
            ["replay", "--device", "sim", "--max-chunk", "3MiB", trace],
            ["replay", "--device", "sim", "--slack", "11", trace],
            ["replay", "--mode", "magic", trace],
            ["replay", "--device", "gpu", trace],
            ["replay", "--device", "sim:99", trace],
            ["replay", "--device", "cuda:9999", trace],
            ["bench", "--threads", "0"],
            ["bench", "--threads", "1,x"],
            ["bench", "--seconds", "0"],
            ["replay", "--cap", "40%", trace],
            ["info", "--nonsense"],
            ["info", "--device", "sim:8"],
            ["info", "--device", "gpu"],
        ):
            with self.subTest(arguments=arguments):
                code, out, err = run(*arguments)
                self.assertEqual(code, 2, err)
                self.assertEqual(out, "")
                self.assertNotEqual(err, "")

    def test_no_command_shows_what_to_try(self):
        code, out, err = run()
        self.assertEqual((code, out), (2, ""))
        self.assertLessEqual(len(err.splitlines()), 6)
        for line in ("gpupool info", "gpupool replay", "gpupool bench", "gpupool --help"):
            self.assertIn(line, err)

    def test_a_command_with_a_typo_is_recognised(self):
        for word, meant in (("inf", "info"), ("infos", "info"), ("relpay", "replay"), ("brench", "bench")):
            self.assertEqual(
                run(word, "--json"), (2, "", f"gpupool: there is no command '{word}'; did you mean {meant}?\n")
            )
        for word in ("destroy", "x", "help"):
            self.assertEqual(
                run(word),
                (
                    2,
                    "",
                    f"gpupool: there is no command '{word}'; there are info, replay, bench, "
                    "record, salvage, export, import, leaks, report, advise, why, share, top, "
                    "trim, snapshot, sleep, wake\n",
                ),
            )

    def test_output_that_cannot_be_written_is_a_failure(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        trace = self.write("one.trace", b"a 1 512 0\nf 1\n")
        # What a command writes itself while it runs is lost too, and not only what is left at its end.
        for arguments in (
            ["info"], ["info", "--json"], ["replay", "--json", trace], ["--help"], ["--version"], ["bench", "--help"],
            ["bench", "--json", "--threads", "1", "--seconds", "0.001"],
        ):  # fmt: skip
            with open("/dev/full", "w", encoding="ascii") as full, self.subTest(arguments):
                done = subprocess.run(
                    [COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
                )
                self.assertEqual((done.returncode, done.stderr), (1, "gpupool: the output could not be written\n"))

    def test_closed_streams_are_no_other_files(self):
        trace = self.write("one.trace", b"a 1 512 0\nf 1\n")

        def run_closed(number, *arguments):
            done = subprocess.run(
                ["sh", "-c", f'exec "$@" {number}>&-', "sh", COMMAND, *arguments], capture_output=True, check=False
            )
            return done.returncode, done.stderr

        lost = (1, b"gpupool: the output could not be written\n")
        for arguments in (["replay", "--device", "sim", "--data", trace], ["replay", trace], ["info", "--json"]):
            self.assertEqual(run_closed(1, *arguments), lost)
        self.assertEqual(run_closed(2, "info")[0], 0)
        self.assertEqual(run_closed(2, "info", "--device", "x")[0], 2)
        code, err = run_closed(0, "replay", "-")
        self.assertEqual(code, 2)
        self.assertIn(b"standard input: cannot be read: ", err)

    def test_words_that_cannot_be_said_change_no_status(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        trace = self.write("cut.trace", b"a 1 512 0\nf 1")
        for arguments, code in (
            (["info", "--device", "x"], 2), (["replay", "none"], 2), (["bogus"], 2), ([], 2),
            (["replay", "--device", "sim", trace], 0), (["replay", "--device", "sim", "--cap", "1", trace], 1),
        ):  # fmt: skip
            with open("/dev/full", "w", encoding="ascii") as full, self.subTest(arguments):
                done = subprocess.run([COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=full, check=False)
                self.assertEqual(done.returncode, code)

    def test_an_empty_value_is_not_taken_for_no_option(self):
        """It comes from a variable of a shell that is not set, and would do more than what was asked for."""
        for arguments in (
            ["leaks", "file", "--fail-over"], ["trim", 1, "--keep"], ["sleep", 1, "--bytes"], ["trim", 1, "--tag"],
            ["share", "--serve", self.folder / "socket", "--limit"], ["share", "--group"], ["top", "--user"],
            ["info", "--device"], ["replay", "file", "--cap"], ["top", "--prometheus", "--listen"],
            ["export", "file", "--output"],
        ):  # fmt: skip
            for words in ([*arguments, ""], [*arguments[:-1], arguments[-1] + "="]):
                with self.subTest(words):
                    code, out, err = run(*words)
                    self.assertEqual((code, out), (2, ""))
                    self.assertTrue(err.startswith(arguments[-1] + ": "), err)

    def test_numbers_of_processes_and_pools(self):
        for arguments in (
            ["top", "--once", "--pid"], ["record", "--pid"], ["export", "file", "--pool"], ["report", "file", "--pool"],
            ["advise", "file", "--pool"], ["trim", 1, "--pool"], ["trim"],
        ):  # fmt: skip
            for value in ("0", "99999999999999999999", "0x10", "010", "1.5", "1e3", "nan", "x"):
                with self.subTest(arguments, value=value):
                    code, out, err = run(*arguments, value)
                    self.assertEqual((code, out), (2, ""))
                    self.assertIn(f": '{value}' is no whole number from 1 on\n", err)
                    self.assertLessEqual(max(map(len, err.splitlines())), 160)

    def test_what_is_no_number_is_no_time(self):
        """It is neither too small nor too large."""
        for arguments in (
            ["bench", "--seconds"], ["share", "--selftest", "--seconds"], ["top", "--interval"], ["trim", 1, "--wait"],
            ["wake", 1, "--timeout"], ["record", "--pid", 1, "--seconds"],
        ):  # fmt: skip
            for value in ("nan", "-nan", "inf"):
                with self.subTest(arguments, value=value):
                    done = subprocess.run(
                        [COMMAND, *map(str, arguments), value], capture_output=True, text=True, timeout=20, check=False
                    )
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(f"{arguments[-1]}: Value {value} not in range ", done.stderr)


class Info(CommandTest):
    def test_json(self):
        code, out, _ = run("info", "--json")
        self.assertEqual(code, 0)
        self.assertEqual(len(out.splitlines()), 1)
        info = json.loads(out)
        self.assertIn("sim", info["features"])
        sims = [d for d in info["devices"] if d["device"].startswith("sim:")]
        self.assertEqual([d["device"] for d in sims], [f"sim:{n}" for n in range(8)])
        for device in info["devices"]:
            self.assertGreater(device["total_bytes"], 0)
            self.assertLessEqual(device["free_bytes"], device["total_bytes"])
            self.assertEqual(device["granularity_bytes"] % 4096, 0)
            self.assertIsInstance(device["capabilities"], list)
            self.assertIsInstance(device["driver_version"], int)
            self.assertIsInstance(device["compute_capability"], int)
            self.assertTrue(device["name"])
        if "cuda" in info["features"]:
            self.assertEqual(info["unavailable"], {})
        else:
            self.assertRegex(info["unavailable"]["cuda"], r"^GPUPOOL_ERROR_UNAVAILABLE: .+")

    def test_words(self):
        code, out, _ = run("info")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^gpupool \d")
        rows = [line for line in out.splitlines() if line.startswith("sim:")]
        self.assertEqual(len(rows), 1, "the simulated devices are alike")
        self.assertRegex(rows[0], r"^sim:0 to sim:7 +\S")

    def test_one_device(self):
        for name, label in (("sim", "sim:0"), ("SIM:3", "sim:3"), ("2", "sim:2"), ("auto", "sim:0")):
            with self.subTest(name=name):
                code, out, err = run("info", "--device", name, "--json")
                self.assertEqual((code, err), (0, ""))
                info = json.loads(out)
                self.assertEqual([d["device"] for d in info["devices"]], [label])
                self.assertEqual(info["unavailable"], {})
                code, out, _ = run("info", "--device", name)
                self.assertRegex(out, rf"(?m)^{label} ")
                self.assertEqual((code, out.count("sim:")), (0, 1))
        code, out, err = run("info", "--device", "sim:8")
        self.assertIn("there is no device 8: the backend has 8", err)


class Replay(CommandTest):
    LISTS = ("ns_per_event", "driver_calls", "driver_time_us", "hits", "misses", "steals")

    def check_row(self, row, workload, passes=2):
        self.assertEqual(row["device"], "sim:0")
        self.assertEqual(row["events"], workload.events)
        self.assertEqual(row["streams"], workload.streams)
        self.assertEqual(row["peak_live_bytes"], workload.peak)
        self.assertGreaterEqual(row["peak_reserved_bytes"], workload.peak)
        self.assertAlmostEqual(row["reserved_over_live"], row["peak_reserved_bytes"] / workload.peak, places=5)
        self.assertEqual(row["passes"], passes)
        for name in self.LISTS:
            self.assertEqual(len(row[name]), passes, name)
        for index, calls in enumerate(row["driver_calls"]):
            by_kind = row["driver_calls_by_kind"]
            self.assertEqual(calls, sum(counts[index] for counts in by_kind.values()))
        for name in ("host_waits", "failed_allocations", "inconsistencies"):
            self.assertIsInstance(row[name], int)

    def test_streams_lend_each_other_gigabytes(self):
        # FSDP's gradients have a stream of their own, and each step the forward pass needs their memory. At the
        # program's pace that fits the pool's share of the time, so no stream keeps what it does not use; also with
        # two busy GPUs on a host, where a driver call takes three times as long as alone.
        options = ("--device", "sim", "--pace", "--passes", "6", "--json", str(RECORDED / "fsdp_train.trace.gz"))
        for scale in (1, 3):
            code, out, _ = run_with({"GPUPOOL_SIM": f"price_scale={scale}"}, "replay", *options)
            self.assertEqual(code, 0)
            row = json.loads(out)
            self.assertLess(max(row["peak_reserved_bytes_by_pass"]), 1.05 * row["peak_live_bytes"])
            self.assertLess(max(row["driver_time_us"][2:]), scale * 0.002 * 7.0e6)

    def test_text_and_gzip_by_content(self):
        one, two = Workload(seed=1), Workload(seed=2, streams=5, events=1000)
        rows, err = self.replay_rows(
            self.write("one.trace.gz", one.text), self.write("two", gzip.compress(two.text.encode()))
        )
        self.assertEqual(err, "")
        self.assertEqual([row["trace"] for row in rows], ["one", "two"])
        self.check_row(rows[0], one)
        self.check_row(rows[1], two)
        for row in rows:
            self.assertEqual(row["failed_allocations"], 0)
            self.assertEqual(row["inconsistencies"], 0)
            self.assertNotIn("cap_over_live", row)
            self.assertGreater(row["driver_calls"][0], row["driver_calls"][1])

    def test_blocks_may_stay_live(self):
        workload = Workload()
        self.assertGreater(workload.live_at_end, 0)
        rows, _ = self.replay_rows("--passes", 3, self.write("t.trace", workload.text))
        self.check_row(rows[0], workload, passes=3)

    def test_words(self):
        path = self.write("some.trace", Workload().text)
        code, out, err = run("replay", "--device", "sim:2", path)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("device sim:2", out)
        self.assertIn("some", out)
        self.assertIn("reserved/live", out)

    def test_data(self):
        workload = Workload(budget=64 * MIB, events=1000)
        rows, err = self.replay_rows("--data", self.write("t.trace", workload.text))
        self.assertEqual(err, "")
        self.check_row(rows[0], workload)

    def test_driver_mode_and_dials(self):
        workload = Workload()
        path = self.write("t.trace", workload.text)
        for options in (["--mode", "driver"], ["--mode", "vmm"], ["--slack", 0.5], ["--max-chunk", "8MiB"]):
            with self.subTest(options=options):
                rows, _ = self.replay_rows(*options, path)
                self.check_row(rows[0], workload)

    def test_cap_that_is_kept(self):
        workload = Workload()
        path = self.write("t.trace", workload.text)
        for cap, limit in (("1.5x", -(-workload.peak * 3 // 2)), ("1GiB", 1 << 30), (str(1 << 30), 1 << 30)):
            with self.subTest(cap=cap):
                rows, _ = self.replay_rows("--cap", cap, path)
                self.check_row(rows[0], workload)
                self.assertEqual(rows[0]["cap_bytes"], limit)
                self.assertLessEqual(rows[0]["peak_reserved_bytes"], limit)
                self.assertEqual(rows[0]["failed_allocations"], 0)

    def test_cap_that_is_too_small(self):
        workload = Workload()
        rows, err = self.replay_rows("--cap", "0.5x", self.write("t.trace", workload.text), status=1)
        self.assertGreater(rows[0]["failed_allocations"], 0)
        self.assertEqual(rows[0]["inconsistencies"], 0)
        self.assertLessEqual(rows[0]["peak_reserved_bytes"], rows[0]["cap_bytes"])
        self.assertRegex(err, r"t: pass 1, event [\d,]+: block \d+ of .* could not be allocated: GPUPOOL_ERROR_")
        self.assertRegex(err, r"t: [\d,]+ allocations failed")

    def test_find_cap(self):
        workload = Workload()
        path = self.write("t.trace", workload.text)
        rows, _ = self.replay_rows("--find-cap", path)
        self.check_row(rows[0], workload)
        cap = rows[0]["cap_over_live"]
        self.assertGreaterEqual(cap, 1.0)
        self.assertLessEqual(cap, max(2.0, rows[0]["reserved_over_live"] + 0.001))
        rows, _ = self.replay_rows("--cap", f"{cap + 1e-6:.6f}x", path)
        self.assertEqual(rows[0]["failed_allocations"], 0)


class BrokenTraces(CommandTest):
    def assert_refused(self, content, pattern, name="bad.trace"):
        path = self.write(name, content)
        for arguments in (["replay", "--device", "sim", path], ["replay", "--device", "sim", "--json", path]):
            code, out, err = run(*arguments)
            self.assertEqual(code, 2, err)
            self.assertEqual(out, "")
            self.assertRegex(err, "^gpupool: " + re.escape(str(path)) + pattern + "\n$")

    def test_each_way(self):
        good = "# comment\na 1 512 0\n"
        for line, pattern in (
            ("b 1 512 0", ":3: unknown kind of line 'b'.*"),
            ("alloc 1 512 0", ":3: unknown kind of line 'alloc'.*"),
            ("a 2 512", ":3: the stream number is missing.*"),
            ("a", ":3: the block ID is missing.*"),
            ("f", ":3: the block ID is missing.*"),
            ("a x 512 0", ":3: the block ID is not a number: 'x'"),
            ("a 2 1e3 0", ":3: the size in bytes is not a number: '1e3'"),
            ("a 2 -5 0", ":3: the size in bytes is not a number: '-5'"),
            ("a 2 512 0 0", ":3: there is more than there should be: '0'"),
            ("f 1 1", ":3: there is more than there should be: '1'"),
            ("a 2 18446744073709551616 0", ":3: the size in bytes does not fit in 64 bits.*"),
            ("a 2 18446744073709551615 0", ":3: block 2 .* more bytes live than 64 bits can count"),
            ("a 1 512 0", ":3: block 1 is allocated again before it is freed"),
            ("f 2", ":3: block 2 is freed and is not live"),
            ("f 1\nf 1", ":4: block 1 is freed and is not live"),
        ):
            with self.subTest(line=line):
                self.assert_refused(good + line + "\n", pattern)
                self.assert_refused(gzip.compress((good + line + "\n").encode()), pattern, "bad.trace.gz")

    def test_nothing_in_it(self):
        self.assert_refused("", ": at byte 0: the file is empty")
        self.assert_refused(gzip.compress(b""), ": at byte 0: the file is empty")
        self.assert_refused("# only words\n", ":1: the trace ends and nothing was allocated")

    def test_cut_or_damaged_gzip(self):
        packed = gzip.compress(Workload().text.encode())
        self.assert_refused(packed[: len(packed) // 2], r":\d+: the gzip data is cut here")
        self.assert_refused(packed[:-1], r":\d+: the gzip data is cut here")
        damaged = bytearray(packed)
        damaged[-6] ^= 0xFF
        self.assert_refused(bytes(damaged), r":\d+: the gzip data is damaged here: .+")

    def test_gzip_that_unpacks_to_very_much(self):
        """A megabyte that unpacks to a gigabyte is refused, and costs the memory of neither."""
        zeroes = gzip.compress(bytes(1 << 24), compresslevel=9) * 64
        no_lines = gzip.compress(b"\n" * (1 << 20), compresslevel=9) * 65
        for content, words in (
            (zeroes, "1: the line is longer than 4096 characters"),
            (no_lines, "67108865: a trace has at most 67108864 lines"),
        ):
            path = self.write("bomb.trace.gz", content)
            with subprocess.Popen(
                [COMMAND, "replay", "--device", "sim", path], stderr=subprocess.PIPE, text=True
            ) as command:
                err = command.stderr.read()
                _, status, usage = os.wait4(command.pid, 0)
                command.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual((command.returncode, err), (2, f"gpupool: {path}:{words}\n"))
            self.assertLess(usage.ru_maxrss * 1024, 256 * MIB)

    def test_a_trace_that_does_not_fit_in_memory(self):
        if b"__asan_init" in pathlib.Path(COMMAND).read_bytes():
            self.skipTest("the address sanitizer needs all addresses")
        path = self.write("bomb.trace.gz", gzip.compress(b"a 1 512 0\nf 1\n" * (1 << 18), compresslevel=9) * 32)
        done = subprocess.run(
            [COMMAND, "replay", "--device", "sim", path],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (256 * MIB, 256 * MIB)),
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, rf"^gpupool: {path}:\d+: the trace does not fit in this machine's memory\n$")

    def test_a_recording_that_does_not_fit_in_memory(self):
        if b"__asan_init" in pathlib.Path(COMMAND).read_bytes():
            self.skipTest("the address sanitizer needs all addresses")
        # 2^26 mallocs of 1 byte, each behind the one before it, in one chunk, and packed in pieces: this process, too,
        # would be large with all of them.
        piece = b"\xb1\0\2\1" * (1 << 20)
        header = b"GPUPOOL\1" + struct.pack("<4IIIQ", 1, 4096, 1 << 30, 3, 1, 0, 10**9)
        chunk = struct.pack("<4sIQI", b"GPCH", 1, 0, 64 * len(piece)).ljust(40, b"\0")
        begin = header.ljust(4096, b"\0") + chunk
        path = self.write("bomb.gpt", gzip.compress(begin) + gzip.compress(piece) * 64)
        for words in (["leaks", path], ["salvage", path, "-o", self.folder / "made.gpt"]):
            done = subprocess.run(
                [COMMAND, *words],
                capture_output=True,
                text=True,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (512 * MIB, 512 * MIB)),
            )
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"gpupool: {path}: the recording does not fit in this machine's memory\n")

    def test_a_pickle_that_does_not_fit_in_memory(self):
        if b"__asan_init" in pathlib.Path(COMMAND).read_bytes():
            self.skipTest("the address sanitizer needs all addresses")
        path = self.write("lists.pickle", b"\x80\4" + b"]" * (32 << 20))
        done = subprocess.run(
            [COMMAND, "import", path],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (256 * MIB, 256 * MIB)),
        )
        self.assertEqual(
            (done.returncode, done.stdout, done.stderr), (1, "", "gpupool: this machine's memory is not enough\n")
        )

    def test_no_message_is_long(self):
        """However long a number is, or a list of what there is to choose from."""
        trace = self.write("t.trace", "a " + "9" * 4000 + " 1 1\n")
        mallocs = b"".join(b"\x31\0" + bytes([pool]) + b"\2\1" for pool in range(1, 100))
        header = b"GPUPOOL\1" + struct.pack("<4IIIQ", 1, 4096, 1 << 20, 3, 1, 0, 10**9)
        chunk = struct.pack("<4sIQI", b"GPCH", 1, 0, len(mallocs)).ljust(40, b"\0")
        pools = self.write("pools.gpt", header.ljust(4096, b"\0") + chunk + mallocs)
        traces = [[{"action": "alloc", "addr": 512, "size": 512}] for _ in range(100)]
        devices = self.write("devices.pickle", pickle.dumps({"device_traces": traces}))
        for words in (["replay", "--device", "sim", trace], ["export", pools], ["import", devices]):
            code, out, err = run(*words)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1))
            self.assertLessEqual(len(err.replace(str(self.folder), "")), 160)

    def test_standard_input(self):
        workload = Workload(events=200)
        for content in (workload.text.encode(), gzip.compress(workload.text.encode())):
            done = subprocess.run(
                [COMMAND, "replay", "--device", "sim", "--json", "-"], input=content, capture_output=True, check=False
            )
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            row = json.loads(done.stdout)
            self.assertEqual((row["trace"], row["file"], row["events"]), ("stdin", "-", workload.events))
        for content, words in (
            (b"", ": at byte 0: the file is empty"),
            (b"a 1\n", ":1: the size in bytes is missing in 'a 1'"),
        ):
            done = subprocess.run([COMMAND, "replay", "-"], input=content, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr.decode()), (2, f"gpupool: standard input{words}\n"))

    def test_not_a_trace_at_all(self):
        self.assert_refused(bytes(range(256)) * 4, r":\d+: .+")

    def test_cut_text_is_mentioned(self):
        path = self.write("cut.trace", "a 1 512 0\nf 1")
        code, _, err = run("replay", "--device", "sim", path)
        self.assertEqual(code, 0)
        self.assertIn("may have been cut", err)

    def test_files_that_cannot_be_read(self):
        for path in (self.folder / "missing.trace", self.folder):
            code, out, err = run("replay", "--device", "sim", path)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(str(path), err)

    def test_all_traces_are_read_before_the_first_is_played(self):
        good = self.write("good.trace", "a 1 512 0\nf 1\n")
        bad = self.write("bad.trace", "a 1 512 0\nf 2\n")
        code, out, err = run("replay", "--device", "sim", "--json", good, bad)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("bad.trace:2:", err)


class Environment(CommandTest):
    def test_levels_of_the_log(self):
        path = self.write("t.trace", "a 1 512 0\nf 1\n")
        quiet = run("replay", "--device", "sim", path)[0]
        self.assertEqual(quiet, 0)
        for level, lines in (("", 0), ("off", 0), ("error", 0), ("warning", 0), ("info", 2)):
            code, _, err = run_with({"GPUPOOL_LOG": level}, "replay", "--device", "sim", path)
            self.assertEqual((code, len(err.splitlines())), (0, lines), err)

    def test_each_variable_with_a_typo_is_named_with_what_is_allowed(self):
        path = self.write("t.trace", "a 1 512 0\nf 1\n")
        code, _, err = run_with({"GPUPOOL_LOG": "verbose"}, "replay", "--device", "sim", path, path)
        self.assertEqual(code, 0)
        self.assertEqual(
            err, 'gpupool: GPUPOOL_LOG is "verbose", not off, error, warning, info or debug: nothing is logged\n'
        )
        code, _, err = run_with({"GPUPOOL_BACKEND": "gpu"}, "replay", path)
        self.assertEqual(code, 2)
        self.assertIn('GPUPOOL_BACKEND is "gpu", not cuda or sim', err)
        code, _, err = run_with({"GPUPOOL_SIM": "capacity=lots"}, "replay", "--device", "sim", path)
        self.assertEqual(code, 2)
        self.assertIn("GPUPOOL_SIM: 'capacity=lots'", err)


class Bench(CommandTest):
    KEYS = ("case", "size", "threads", "live_blocks", "ns", "ns_min", "ns_max", "mutex_ns", "libc_ns")

    def test_json_rows(self):
        code, out, err = run("bench", "--device", "sim", "--json", "--threads", "1,2", "--seconds", "0.01")
        self.assertEqual((code, err), (0, ""))
        rows = [json.loads(line) for line in out.splitlines()]
        for row in rows:
            for key in self.KEYS:
                self.assertIn(key, row)
            self.assertLessEqual(row["ns_min"], row["ns"])
            self.assertLessEqual(row["ns"], row["ns_max"])
            self.assertGreater(row["mutex_ns"], 0)
            self.assertGreater(row["libc_ns"], 0)
        shapes = [(row["case"], row["size"], row["threads"], row["live_blocks"]) for row in rows]
        self.assertEqual(
            shapes,
            [("pair", size, 1, 0) for size in (512, 65536, MIB, 10 * MIB, 256 * MIB)]
            + [("pair_recorded", 65536, 1, 0)]
            + [("pair_own_streams", 65536, threads, 0) for threads in (1, 2)]
            + [("pair_one_stream", 65536, threads, 0) for threads in (1, 2)]
            + [(f"streams_in_turn_{streams}", 65536, 1, 0) for streams in (2, 8, 64)]
            + [("wandering_64", 65536, 8, 0)]
            + [(f"sizes_in_turn_{sizes}", 512 * sizes, 1, 0) for sizes in (64, 1024)]
            + [("pair_parked", 65536, 1, 0)]
            + [("free_elsewhere", 65536, 2, 0), ("ring", 0, 2, 0)]
            + [("churn", 16 * MIB, 1, 1000), ("churn", MIB, 1, 10000)]
            + [("churn", 65536, 1, 100000), ("churn", 65536, 1, 1000000)],
        )

    def test_words(self):
        code, out, err = run("bench", "--device", "sim", "--threads", "1", "--seconds", "0.01")
        self.assertEqual((code, err), (0, ""))
        for word in ("pair_own_streams", "free_elsewhere", "churn", "mutex ns", "libc ns"):
            self.assertIn(word, out)


if __name__ == "__main__":
    unittest.main()
