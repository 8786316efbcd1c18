#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report comes where the user looks, or nowhere: it neither ends the program, nor waits, nor spoils a file."""

import contextlib
import os
import pathlib
import subprocess
import sys
import unittest

from audited import COMMAND, PRELUDE, AuditTest

BEGIN = (
    PRELUDE
    + """
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
take(MIB)
"""
)


class ReportTest(AuditTest):
    def setUp(self):
        super().setUp()
        self.environment["LD_AUDIT"] = str(pathlib.Path(COMMAND).resolve().parent / "libgpupool_audit.so")

    def status(self, stderr, program=""):
        words = [sys.executable, "-c", BEGIN + program]
        return subprocess.run(words, stderr=stderr, env=self.environment, timeout=20, check=False).returncode

    def test_it_comes(self):
        code, _, err = self.start(sys.executable, "-c", BEGIN)
        self.assertEqual(code, 0)
        self.assertIn("gpupool run: device 0: at most 1048576 bytes", err)

    def test_a_reader_that_has_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.assertEqual(self.status(writer), 0)
        os.close(writer)

    def test_a_reader_that_reads_nothing(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
        os.set_blocking(writer, True)
        self.assertEqual(self.status(writer), 0)
        os.close(reader)
        os.close(writer)

    def unhooked(self, opened, program="", **environment):
        """What is said of a program that never calls the driver, with a file open and 300 MiB by NVML."""
        file = self.folder / "dev" / opened
        file.parent.mkdir(exist_ok=True)
        words = f"""
import ctypes, os
ctypes.CDLL(None).setenv(b"FAKE_NVML_USERS", b"1:5,%d:%d" % (os.getpid(), 300 << 20), 1)
device = os.open("{file}", os.O_RDWR | os.O_CREAT)
{program}
"""
        code, _, err = self.start(sys.executable, "-c", words, **environment)
        self.assertEqual(code, 0, err)
        return err

    def test_a_program_that_talks_to_the_kernel_itself(self):
        said = "gpupool run: no hooked call gave memory"
        self.assertEqual(self.unhooked("nvidia-uvm"), f"{said}; not covered: {300 << 20} bytes\n")
        without_nvml = self.unhooked("nvidia-uvm", GPUPOOL_LIBNVML="/no/such/file")
        self.assertEqual(without_nvml, f"{said}, though a GPU is open; NVML does not say what the process has\n")
        for opened, program in (("nvidiactl", ""), ("nvidia-uvm", "os.close(device)"), ("nvidia-uvm", "os._exit(0)")):
            self.assertEqual(self.unhooked(opened, program), "")
        self.assertEqual(self.unhooked("nvidia-uvm", "os.waitpid(os.fork(), 0)").count(said), 1)

    def test_a_program_with_hooked_calls_says_no_more_for_an_open_device(self):
        file = self.folder / "dev/nvidia-uvm"
        file.parent.mkdir()
        file.touch()
        _, _, err = self.start(sys.executable, "-c", BEGIN + f"os.open('{file}', os.O_RDWR)")
        self.assertEqual(err.count("gpupool run: "), 1, err)

    def test_a_file_in_the_place_of_standard_error(self):
        file = self.folder / "data"
        program = f"os.close(2); assert os.open('{file}', os.O_RDWR | os.O_CREAT) == 2; os.write(2, b'mine')"
        self.assertEqual(self.status(subprocess.DEVNULL, program), 0)
        self.assertEqual(file.read_bytes(), b"mine")

    def test_a_cap_that_is_no_number(self):
        for text in ("8GiB", "", "0", "-1"):
            with self.subTest(text):
                _, _, err = self.start(sys.executable, "-c", BEGIN, GPUPOOL_RUN_CAP=text)
                self.assertIn("gpupool run: GPUPOOL_RUN_CAP is not a number of bytes, so nothing is capped", err)


if __name__ == "__main__":
    unittest.main()
