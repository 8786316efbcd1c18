#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all of the gpupool command has in common: help, usage, output, variables. GPUPOOL_COMMAND is its path."""

import os
import re
import shlex
import subprocess
import unittest

from command import COMMAND, CommandTest, run


def commands():
    """All commands, as the refusal of a word that is none lists them."""
    return run("x")[2].partition("there are ")[2].strip().split(", ")


def words_of(line, command):
    """The words of an example in the help, without what it does with the output, and what is said of it."""
    line = line[line.index(f"gpupool {command}") + len("gpupool ") :]
    return shlex.split(re.split(r" (?:[|>&]|>>|&&) | {3,}|  +(?=or )", line)[0])


class Front(CommandTest):
    def test_help_names_every_command_once(self):
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        self.assertIn("Exit status", out)
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        listed = re.findall(r"^  ([a-z]+) +\S.*$", out, re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(set(listed)), "in one group each")
        self.assertEqual(listed, commands())
        # Each group has a heading, and each line of it fits.
        for group in out.split("\n\n"):
            heading, *lines = group.splitlines()
            if lines and lines[0].startswith("  ") and not lines[0].startswith("  -"):
                self.assertTrue(heading.endswith(":") and heading[0].isupper(), heading)
                for line in lines:
                    self.assertRegex(line, r"^  [a-z]{3,9} +[A-Z].*[^.]$")

    def test_help_of_a_command_has_examples_that_it_takes(self):
        for command in commands():
            with self.subTest(command):
                code, out, _ = run(command, "--help")
                self.assertEqual(code, 0)
                self.assertLessEqual(max(map(len, out.splitlines())), 110)
                examples = out.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
                mine = [line for line in examples if f"gpupool {command}" in line]
                self.assertNotEqual(mine, [])
                for line in mine:
                    words = words_of(line, command)
                    words = words[: words.index("--")] if "--" in words else words
                    # With --help, the values of options are checked, but not their names, and nothing is done.
                    self.assertEqual(run(*words, "--help"), (0, out, ""), words)
                    for name in (word.partition("=")[0] for word in words if re.match("--?[a-z]", word)):
                        self.assertRegex(out, rf"(?m)^  (-., ?)?{name}\b|^  {name},", words)

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
        for word in ("destroy", "x", "foo", "help"):
            self.assertEqual(
                run(word),
                (
                    2,
                    "",
                    f"gpupool: there is no command '{word}'; there are info, top, share, replay, bench, "
                    "run, record, salvage, report, leaks, advise, why, export, import, snapshot, trim, sleep, wake\n",
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
            ["bench", "--seconds"], ["top", "--interval"], ["trim", 1, "--wait"],
            ["wake", 1, "--timeout"], ["record", "--pid", 1, "--seconds"],
        ):  # fmt: skip
            for value in ("nan", "-nan", "inf"):
                with self.subTest(arguments, value=value):
                    done = subprocess.run(
                        [COMMAND, *map(str, arguments), value], capture_output=True, text=True, timeout=20, check=False
                    )
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(f"{arguments[-1]}: Value {value} not in range ", done.stderr)


class Environment(CommandTest):
    def test_levels_of_the_log(self):
        path = self.write("t.trace", "a 1 512 0\nf 1\n")
        quiet = run("replay", "--device", "sim", path)[0]
        self.assertEqual(quiet, 0)
        for level, lines in (("", 0), ("off", 0), ("error", 0), ("warning", 0), ("info", 2)):
            code, _, err = run("replay", "--device", "sim", path, environment={"GPUPOOL_LOG": level})
            self.assertEqual((code, len(err.splitlines())), (0, lines), err)

    def test_lines_of_the_log_say_when_and_who(self):
        path = self.write("t.trace", "a 1 512 0\nf 1\n")
        log = self.folder / "log-%p.txt"
        command = ("replay", "--device", "sim", path)
        code, _, err = run(*command, environment={"GPUPOOL_LOG": f"time,info,process,thread,file={log}"})
        self.assertEqual((code, err), (0, ""))
        (file,) = self.folder.glob("log-*.txt")
        number = re.fullmatch(r"log-(\d+)\.txt", file.name)[1]
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        lines = file.read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(
                line, rf"^gpupool 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{6}}Z process {number} thread \d+: pool \d+ "
            )
        code, _, err = run(*command, environment={"GPUPOOL_LOG": "process,info"})
        self.assertRegex(err, r"^gpupool process \d+: pool 1 created")
        # What has no file goes to standard error.
        code, _, err = run(*command, environment={"GPUPOOL_LOG": f"info,file={self.folder}/none/log"})
        self.assertEqual((code, len(err.splitlines())), (0, 2), err)
        for bad in ("file=", "info,,time", "info,name", "file=" + "x" * 1024):
            code, _, err = run(*command, environment={"GPUPOOL_LOG": bad})
            self.assertEqual((code, len(err.splitlines())), (0, 1), err)
            self.assertIn("is none of off, error,", err)

    def test_an_unknown_variable_is_named_once_with_the_nearest(self):
        path = self.write("t.trace", "a 1 512 0\nf 1\n")
        for name, nearest in (
            ("GPUPOOL_LIMT", "GPUPOOL_LIMIT"),
            ("GPUPOOL_", "GPUPOOL_CAP"),
            ("GPUPOOL_SHARE_GUARANTED", "GPUPOOL_SHARE_GUARANTEED"),
        ):
            code, _, err = run("replay", "--device", "sim", path, path, environment={name: "1GiB"})
            self.assertEqual(code, 0)
            self.assertEqual(err, f"gpupool: {name} is no variable that gpupool knows: is {nearest} meant?\n")
        long = "GPUPOOL_" + "X" * 300
        others = {"GPUPOOL_TEST_MINE": "1", "GPUPOOL_PORT": "1", "GPUPOOL_SERVICE_HOST": "1"}
        code, _, err = run("replay", "--device", "sim", path, environment={long: "1"} | others)
        self.assertEqual((code, len(err.splitlines())), (0, 1))

    def test_each_variable_with_a_typo_is_named_with_what_is_allowed(self):
        path = self.write("t.trace", "a 1 512 0\nf 1\n")
        code, _, err = run("replay", "--device", "sim", path, path, environment={"GPUPOOL_LOG": "verbose"})
        self.assertEqual(code, 0)
        self.assertEqual(
            err,
            'gpupool: GPUPOOL_LOG: "verbose" is none of off, error, warning, info, debug, time, process, thread and '
            "file=: nothing is logged\n",
        )
        code, _, err = run("replay", path, environment={"GPUPOOL_BACKEND": "gpu"})
        self.assertEqual(code, 2)
        self.assertIn('GPUPOOL_BACKEND is "gpu", not cuda, sim or host', err)
        code, _, err = run("replay", "--device", "sim", path, environment={"GPUPOOL_SIM": "capacity=lots"})
        self.assertEqual(code, 2)
        self.assertIn("GPUPOOL_SIM: 'capacity=lots'", err)


if __name__ == "__main__":
    unittest.main()
