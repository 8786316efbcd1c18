#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""16 threads at a cap: the driver, which counts to the byte, never has more out than the cap."""

import re
import sys
import time
import unittest

from audited import MIB, AuditTest

TURNS = 100_000
CAP = 48 * MIB  # the threads ask for up to 128 MiB at once, and for 64 MiB on average


class ThreadsTest(AuditTest):
    def test_a_cap_is_exact_under_threads(self):
        program = self.compile("churn.c")
        start = time.perf_counter()
        code, out, err = self.hooked(["--cap", "48MiB"], program, TURNS)
        seconds = time.perf_counter() - start
        self.assertEqual(code, 0, err)
        given, refused, peak, left = map(int, out.split())
        print(f"{given} given, {refused} refused, peak {peak} of {CAP}, {seconds:.1f} s", file=sys.stderr)
        self.assertEqual(given + refused, 16 * TURNS)
        self.assertGreater(refused, TURNS / 100)
        self.assertLessEqual(peak, CAP)
        self.assertGreater(peak, CAP - MIB)  # it can all be had
        self.assertEqual(left, 0)
        told = re.search(r"at most (\d+) bytes of (\d+), (\d+) refused", err)
        self.assertEqual(tuple(map(int, told.groups()))[1:], (CAP, refused))
        self.assertGreaterEqual(int(told.group(1)), peak)

    def test_pools_go_beyond_a_cap_by_a_growth_at_most(self):
        """The stand-in's pools grow by 32 MiB, of which the cap learns afterwards."""
        self.assertLessEqual(self.peak_with("pools"), CAP + 32 * MIB)

    def test_pools_of_each_thread(self):
        """Eight, of which what one keeps is no room for the others: one growth for each thread, not for each pool."""
        self.assertLessEqual(self.peak_with("own"), CAP + 16 * 32 * MIB)

    def test_pools_end_while_others_are_refused(self):
        """A refusal has all pools give up what they keep, though their users may destroy them at any time."""
        program = self.compile("pool_ends.c")
        code, _, err = self.hooked(["--cap", "48MiB"], program, TURNS)
        self.assertEqual(code, 0, err)

    def peak_with(self, pools):
        program = self.compile("churn.c")
        code, out, err = self.hooked(["--cap", "48MiB"], program, TURNS // 4, pools)
        self.assertEqual(code, 0, err)
        _, refused, peak, left = map(int, out.split())
        print(f"{pools}: {refused} refused, peak {peak} of {CAP}, {left} kept", file=sys.stderr)
        self.assertGreater(refused, 0)
        self.assertLessEqual(left, CAP)  # what the pools keep
        return peak


if __name__ == "__main__":
    unittest.main()
