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

# Lines of the kernel's log with the page and the access. The first four are as people published them, of four
# generations of drivers: pastebin.com/fTNHmgzB, NVIDIA/open-gpu-kernel-modules#363, madMAx43v3r/chia-gigahorse#301, and
# abhik.ai/articles/gpu-xid31-mmu-faults. The fifth is an example in the manual of a monitor, without the underscore;
# the others combine what was seen in parts.
PUBLISHED = [
    ("May 13 17:19:01 hyperion kernel: NVRM: Xid (PCI:0000:08:00): 31, Ch 0000003b, intr 10000000. MMU Fault: ENGINE "
     "GRAPHICS HUBCLIENT_SCC faulted @ 0x0_04687000. Fault is of type FAULT_PDE ACCESS_TYPE_READ",
     0x04687000, "read"),
    ("NVRM: Xid (PCI:0000:08:00): 31, pid=169800, name=chrome, Ch 00000023, intr 00000000. MMU Fault: ENGINE CE0 "
     "HUBCLIENT_HSCE0 faulted @ 0x0_0abe0000. Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_READ",
     0x0abe0000, "read"),
    ("[14328.198504] NVRM: Xid (PCI:0000:0a:00): 31, pid=13332, name=cuda_plot_k32_v, Ch 00000010, intr 00000000. MMU "
     "Fault: ENGINE CE2 HUBCLIENT_CE0 faulted @ 0x7f29_5b8c9000. Fault is of type FAULT_PRIV_VIOLATION "
     "ACCESS_TYPE_VIRT_READ",
     0x7f295b8c9000, "read"),
    ("NVRM: Xid (PCI:0000:c1:00): 31, pid=2646416, name=python, channel 0x0000001a, intr 00000000. MMU Fault: ENGINE "
     "GRAPHICS GPC10 GPCCLIENT_T1_5 faulted @ 0x725f_fb800000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
     0x725ffb800000, "read"),
    ("NVRM: Xid (PCI:0000:04:00): 74, pid=1234, name=python3, Channel 0x23, MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 "
     "faulted @ 0x7fc123456000. Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_READ",
     0x7fc123456000, "read"),
    ("NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=a.out, channel 0x00000008, intr 00000000. MMU Fault: ENGINE "
     "GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x7f84_10b12000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
     0x7f8410b12000, "write"),
    ("NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=a.out, channel 0x00000008, intr 00000000. MMU Fault: ENGINE "
     "GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x7f84_10b13000. Fault is of type FAULT_RO_VIOLATION "
     "ACCESS_TYPE_VIRT_WRITE",
     0x7f8410b13000, "write to what may only be read"),
    ("NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=a.out, channel 0x00000008, intr 00000000. MMU Fault: ENGINE "
     "GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x7f84_10b14000. Fault is of type FAULT_PTE "
     "ACCESS_TYPE_VIRT_ATOMIC_STRONG",
     0x7f8410b14000, "atomic operation"),
]
# What stands around them: its numbers are no addresses.
OTHER_LINES = [
    "[14328.198496] NVRM: GPU at PCI:0000:0a:00: GPU-760d0170-b7c5-6817-9414-6cc7112645de",
    "[14370.688139] NVRM: Xid (PCI:0000:0a:00): 45, pid='<unknown>', name=<unknown>, Ch 00000008",
    "NVRM: Xid (PCI:0000:01:00): 45, pid=4242, name=a.out, channel 0x00000008",
    "NVRM: Xid (PCI:0000:01:00): 13, pid=4242, name=a.out, Graphics Exception: ESR 0x504648=0xc00000e "
    "0x504650=0x81000020 0x504644=0xd3eff2 0x50464c=0x17f",
]


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

    def test_lines_as_they_were_published(self):
        for line, page, access in PUBLISHED:
            text = self.why(line, status=1)
            self.assertIn(f"The kernel names the page {page:#x}: what touches its 4096 bytes counts.\n", text)
            self.assertIn(f"The access was a {access}.\n", text)
        # Of a log, only lines that name an address count, each once.
        log = "".join(line + "\n" for line in [*OTHER_LINES, *(line for line, _, _ in PUBLISHED), *OTHER_LINES])
        text = self.why("-", status=1, words=log)
        self.assertEqual(re.findall(r"names the page (0x\w+):", text), [f"{page:#x}" for _, page, _ in PUBLISHED])
        self.assertEqual(text.count("was in no block"), len(PUBLISHED))
        for line in OTHER_LINES:
            self.assertIn("names no address", self.why(line, status=2))

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
