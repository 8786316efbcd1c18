#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupool why: addresses in every form, and what a recording says about them."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_watch import COMMAND, MIB, PROLOGUE

PROGRAM = (
    PROLOGUE
    + """
push("grads")
first = malloc(3 << 20)
pop()
second = malloc(3 << 20)
mark("step 12")
free(first)
for _ in range(5):
    again = malloc(9 << 20)
    free(again)
assert malloc(9 << 20) == again
print(first, second, again)
"""
)


class Why(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = str(Path(cls.folder.name) / "run.gpt")
        command = [COMMAND, "record", "--stacks", "native", "-o", cls.file, "--", sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        cls.first, cls.second, cls.again = (int(word) for word in done.stdout.split())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def why(self, what, status=0, words=""):
        done = subprocess.run(
            [COMMAND, "why", what, self.file], input=words, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_freed_block_with_its_neighbour(self):
        text = self.why(hex(self.first + MIB))
        self.assertIn(f"{self.first + MIB:#x} is 1048576 bytes into freed block 1 of 3145728 bytes", text)
        self.assertIn('of "grads"', text)
        self.assertIn("allocated at ", text)
        self.assertIn("freed at ", text)
        self.assertIn('after the mark "step 12"', text)

    def test_a_live_block_by_a_decimal_number(self):
        text = self.why(str(self.second))
        self.assertIn("0 bytes into live block 2", text)

    def test_an_address_that_was_used_again_and_again(self):
        text = self.why(hex(self.again + 5))
        numbers = [int(number) for number in re.findall(r"into (?:freed|live) block (\d+) of 9437184", text)]
        self.assertEqual(numbers, [8, 7, 6], text)
        self.assertIn("into live block 8", text)
        self.assertIn("and before that in 3 more blocks", text)

    def test_an_address_in_no_block(self):
        text = self.why("0x1000", status=1)
        self.assertIn("was in no block", text)
        self.assertIn("nothing was ever mapped there", text)
        self.assertIn("behind, ", text)

    def test_a_line_of_the_kernel(self):
        page = (self.first + MIB) & ~4095
        words = f"{page >> 32:#x}_{page & 0xFFFFFFFF:08x}"
        line = (
            "[ 1.5] NVRM: Xid (PCI:0000:01:00): 31, pid=29228, name=python, Ch 00000008, intr 00000000. MMU Fault: "
            f"ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ {words}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
        )
        for text in (self.why(line), self.why("-", words=f"nothing\n{line}\n")):
            self.assertIn(f"The kernel names the page {page:#x}", text)
            self.assertIn("The access was a write", text)
            self.assertIn("freed block 1 of 3145728 bytes", text)

    def test_a_line_of_the_sanitizer(self):
        line = f"=========     Access to {self.second + 5:#x} is out of bounds"
        self.assertIn("5 bytes into live block 2", self.why(line))

    def test_words_that_name_no_address(self):
        for words in ("", "grads", "0x", "18446744073709551616", "0xg", "0x7f 0x12", "faulted @ nowhere"):
            self.assertIn("names no address", self.why(words, status=2))
        self.assertIn("names no address", self.why("-", status=2, words="no\n"))

    def test_a_file_that_is_no_recording(self):
        done = subprocess.run([COMMAND, "why", "0x1000", __file__], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    os.environ.setdefault("GPUPOOL_BACKEND", "sim")
    unittest.main()
