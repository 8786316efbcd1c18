#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two recorders for one file, and what one that was killed has left. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY
the library."""

import os
import re
import signal
import subprocess
import sys
import unittest
from contextlib import contextmanager
from pathlib import Path

import test_watch
from command import COMMAND, run

WAITS = test_watch.PROLOGUE + "malloc(1000)\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n"


class Clash(test_watch.Case):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "run.gpt"

    @contextmanager
    def recorder(self, *program):
        """Of a program that says its number; it has done so."""
        with subprocess.Popen([COMMAND, "record", "-o", self.path, "--", *program], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as command:  # fmt: skip
            try:
                yield command, int(command.stdout.readline())
            finally:
                command.terminate()

    def begin(self, *options, path=None):
        """Status and words of another recorder, and whether its program ran."""
        ran = self.folder / "ran"
        ran.unlink(missing_ok=True)
        status, _, said = run("record", "-o", path or self.path, *options, "--", "touch", ran)
        return status, said, ran.exists()

    def kill(self, command, program):
        command.kill()
        command.wait()
        os.kill(program, signal.SIGKILL)

    def test_the_second_is_refused_before_its_program_runs(self):
        link = self.folder / "link"
        link.symlink_to(self.folder)
        with self.recorder("env", "GPUPOOL_CONTROL=1", sys.executable, "-c", WAITS) as (command, program):
            for path in (self.path, link / "run.gpt"):
                for options in ((), ("--last", "1MiB")):
                    said = f"gpupool: {path} is already being recorded by another gpupool record\n"
                    self.assertEqual(self.begin(*options, path=path), (2, said, False))
            self.assertEqual(run("record", "--pid", program, "--seconds", "0.1", "-o", self.path)[::2],
                             (2, f"gpupool: {self.path} is already being recorded by another gpupool record\n"))
            self.assertEqual(self.begin(path=self.folder / "other.gpt")[2], True)
            command.terminate()
            _, said = command.communicate(timeout=60)
        self.assertEqual([line["bytes"] for line in self.leaks(self.path)[1]], [1024], said)
        self.assertEqual(list(self.folder.glob(".gpupool*")), [])
        self.assertIn("is there already", self.begin()[1])

    def test_what_a_killed_one_left_can_be_saved(self):
        with self.recorder(sys.executable, "-c", WAITS) as (command, program):
            self.kill(command, program)
        status, said, ran = self.begin()
        self.assertEqual((status, ran), (2, False), said)
        part = re.fullmatch(
            r"gpupool: an earlier gpupool record of \S+/run\.gpt has left (\S+): 'gpupool salvage' makes a recording "
            r"of it; then remove it\n", said)[1]  # fmt: skip
        self.assertEqual(run("salvage", part, "-o", self.folder / "saved.gpt")[0], 0)
        self.assertEqual([line["bytes"] for line in self.leaks(self.folder / "saved.gpt")[1]], [1024])
        self.assertEqual(self.begin()[2], False)
        Path(part).unlink()
        self.assertEqual(self.begin()[2], True)

    def test_one_that_left_nothing_is_in_nobodys_way(self):
        with self.recorder("sh", "-c", "echo $$; exec sleep 60") as (command, program):
            self.kill(command, program)
        self.assertEqual(len(list(self.folder.glob(".gpupool*"))), 1)
        self.assertEqual(self.begin()[2], True)
        self.assertEqual(list(self.folder.glob(".gpupool*")), [])

    def left_folder(self):
        """The folder beside the file, of a recorder that was killed."""
        with self.recorder("sh", "-c", "echo $$; exec sleep 60") as (command, program):
            self.kill(command, program)
        (folder,) = self.folder.glob(".gpupool*")
        return folder

    def test_what_is_in_the_place_of_its_folder(self):
        folder = self.left_folder()
        self.assertTrue(self.begin()[2])
        (self.folder / "elsewhere").mkdir()
        for put in (lambda: folder.symlink_to("elsewhere"), folder.touch):
            put()
            said = f"gpupool: {folder}, which is needed to record {self.path}, cannot be used: Not a directory\n"
            self.assertEqual(self.begin(), (2, said, False))
            folder.unlink()
        self.assertTrue(self.begin()[2])

    @unittest.skipIf(os.geteuid() != 0, "only root can make another user's folder")
    def test_another_users_folder(self):
        folder = self.left_folder()
        os.chown(folder, 12345, 12345)
        said = f"gpupool: {folder}, which is needed to record {self.path}, cannot be used: it is another user's\n"
        self.assertEqual(self.begin(), (2, said, False))
        self.assertTrue(folder.is_dir())

    def test_signs_that_the_library_gives_a_meaning(self):
        folder = self.folder / "of%p"
        folder.mkdir()
        status, said, ran = self.begin(path=folder / "run.gpt")
        self.assertEqual((status, ran), (2, False))
        self.assertIn("of%p has %p in its name, which stands for a process", said)
        self.assertEqual(list(folder.iterdir()), [])
        for name in ("run%p.gpt", "run,last=1MiB", "x" * 255):
            self.record("free(malloc(1000))", name=name)


if __name__ == "__main__":
    unittest.main()
