#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the hooks cost: a call that is not hooked, one that is forwarded, one that is counted; and a start."""

import statistics
import sys
import time
import unittest

from audited import COMMAND, AuditTest

# Targets: 10 ns and 200 ns. A build machine that is shared is slower at times.
FORWARDED = 10
COUNTED = 200


class CostTest(AuditTest):
    def test_calls(self):
        program = self.compile("cost.c")
        plain = [self.figures(self.start(program)) for _ in range(3)]
        hooked = [self.figures(self.hooked(["--cap", "1GiB"], program)) for _ in range(3)]
        passed, forwarded, pair, pooled, beside, after = (
            min(run[at] for run in hooked) - min(run[at] for run in plain) for at in range(6)
        )
        print(
            f"more nanoseconds under the hooks: not hooked {passed:.1f}, forwarded {forwarded:.1f}, "
            f"cuMemAlloc {pair / 2:.1f}, cuMemAllocAsync {pooled / 2:.1f}, "
            f"cuMemAlloc beside 300000 blocks {beside / 2:.1f}, after them {after / 2:.1f}",
            file=sys.stderr,
        )
        self.assertLess(passed, FORWARDED)
        self.assertLess(forwarded, FORWARDED)
        self.assertLess(pair / 2, COUNTED)
        self.assertLess(pooled / 2, COUNTED)
        self.assertLess(beside / 2, COUNTED)
        self.assertLess(after / 2, pair + FORWARDED)  # what was large is not slow for ever

    def test_a_group_costs_as_little(self):
        program = self.compile("cost.c")
        plain = [self.figures(self.start(program)) for _ in range(3)]
        words = ["--share", "cost", "--cap", "1GiB"]
        shared = [self.figures(self.hooked(words, program, GPUPOOL_SHARE_DIR=str(self.folder))) for _ in range(3)]
        _, forwarded, pair, pooled, *_ = (
            min(run[at] for run in shared) - min(run[at] for run in plain) for at in range(6)
        )
        print(
            f"in a group: forwarded {forwarded:.1f}, cuMemAlloc {pair / 2:.1f}, cuMemAllocAsync {pooled / 2:.1f}",
            file=sys.stderr,
        )
        self.assertLess(forwarded, FORWARDED)
        self.assertLess(pair / 2, COUNTED)
        self.assertLess(pooled / 2, COUNTED)

    def figures(self, done):
        code, out, err = done
        self.assertEqual(code, 0, err)
        return tuple(map(float, out.split(",")))

    def test_a_start_takes_50_ms_more_at_most(self):
        def seconds(*words):
            start = time.perf_counter()
            self.assertEqual(self.start(*words)[0], 0)
            return time.perf_counter() - start

        plain = statistics.median(seconds("true") for _ in range(15))
        under = statistics.median(seconds(COMMAND, "run", "--hooks", "--", "true") for _ in range(15))
        print(f"a start under the hooks takes {(under - plain) * 1000:.1f} ms more", file=sys.stderr)
        self.assertLess(under - plain, 0.05)


if __name__ == "__main__":
    unittest.main()
