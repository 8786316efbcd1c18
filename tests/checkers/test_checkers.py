#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debug mode annotate on the simulated device: what AddressSanitizer and Valgrind report of a program that touches
memory of the pool in which no block is, and that they report nothing else."""

import os
import shutil
import subprocess
import unittest

ASAN = os.environ.get("CHECKERS_ASAN")
PLAIN = os.environ.get("CHECKERS_PLAIN")
VALGRIND = shutil.which("valgrind")

RIGHT = ["use_rightly", "sleep_rightly", "copy_after_free"]
# The case, and how many bytes it touches how.
WRONG = {
    "read_after_free": "READ",
    "write_after_free": "WRITE",
    "write_one_beyond": "WRITE",
    "read_one_beyond_large": "READ",
    "write_one_before": "WRITE",
    "write_beyond_after_wake": "WRITE",
    "write_beyond_after_protect": "WRITE",
    "read_after_move": "READ",
    "read_after_free_in_child": "READ",
}
# Where memory is not mapped by the pool, nothing moves, sleeps or is protected, and a large block is alone.
VMM_ONLY = {
    "write_one_before",
    "sleep_rightly",
    "write_beyond_after_wake",
    "write_beyond_after_protect",
    "read_after_move",
}


def run(words, debug="annotate", **more):
    environment = dict(os.environ, GPUPOOL_DEBUG=debug, **more)
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300, check=False)


def cases(names):
    for name in names:
        yield name, "vmm"
        if name not in VMM_ONLY:
            yield name, "driver"


@unittest.skipUnless(ASAN, "this compiler has no -fsanitize=address")
class AddressSanitizer(unittest.TestCase):
    def run_case(self, name, mode, debug="annotate"):
        return run([ASAN, name, mode], debug, ASAN_OPTIONS="detect_leaks=0:abort_on_error=0:exitcode=23")

    def test_what_is_right_is_silent(self):
        for debug in ("annotate", "annotate,poison,canary,quarantine=1MiB"):
            for name, mode in cases(RIGHT):
                with self.subTest(case=name, mode=mode, debug=debug):
                    done = self.run_case(name, mode, debug)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_accesses_outside_of_blocks_are_reported(self):
        for name, mode in cases(WRONG):
            with self.subTest(case=name, mode=mode):
                done = self.run_case(name, mode)
                self.assertIn("AddressSanitizer: use-after-poison", done.stderr)
                self.assertIn(f"{WRONG[name]} of size 1", done.stderr)
                self.assertIn(f"in {name}", done.stderr)
                if name != "read_after_free_in_child":
                    self.assertEqual(done.returncode, 23)

    def test_addresses_of_a_destroyed_pool_are_unmapped(self):
        done = self.run_case("read_after_destroy", "vmm")
        self.assertEqual(done.returncode, 23)
        self.assertIn("AddressSanitizer: SEGV", done.stderr)
        self.assertIn("in read_after_destroy", done.stderr)

    def test_without_the_mode_the_same_bug_is_not_seen(self):
        done = self.run_case("read_after_free", "vmm", "")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(PLAIN and VALGRIND, "no valgrind, or a program with a sanitizer, which cannot run under it")
class Valgrind(unittest.TestCase):
    def run_case(self, name, mode, debug="annotate"):
        command = [VALGRIND, "-q", "--error-exitcode=23", "--leak-check=no", PLAIN, name, mode]
        return run(command, debug)

    def test_what_is_right_is_silent(self):
        for name in RIGHT:
            for debug in ("annotate", "annotate,poison,canary,quarantine=1MiB"):
                with self.subTest(case=name, debug=debug):
                    done = self.run_case(name, "vmm", debug)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_accesses_outside_of_blocks_are_reported(self):
        for name, mode in [(name, "vmm") for name in WRONG] + [("read_after_free", "driver")]:
            with self.subTest(case=name, mode=mode):
                done = self.run_case(name, mode)
                self.assertIn(f"Invalid {WRONG[name].lower()} of size 1", done.stderr)
                self.assertIn(f"{name} (in", done.stderr)
                if name != "read_after_free_in_child":
                    self.assertEqual(done.returncode, 23)

    def test_the_block_is_named(self):
        done = self.run_case("write_one_beyond", "vmm")
        self.assertIn("is 0 bytes after a block of size 1,001 alloc'd", done.stderr)
        done = self.run_case("read_after_free", "vmm")
        self.assertIn("is 500 bytes inside a block of size 1,001 free'd", done.stderr)

    def test_what_nobody_has_written_is_reported(self):
        for debug in ("annotate", "annotate,poison"):
            done = self.run_case("read_unwritten", "vmm", debug)
            self.assertIn("Conditional jump or move depends on uninitialised value", done.stderr)
            self.assertEqual(done.returncode, 23)


if __name__ == "__main__":
    unittest.main()
