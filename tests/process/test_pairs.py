#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of a cached malloc and free, counted by valgrind --tool=callgrind: two runs of one program that differ
only in how many pairs they do. PAIRS is the program. Without valgrind, exits with 77: skipped."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FEW, MANY = 20_000, 220_000

# What docs/inside/hot_path.md promises; the loop around a pair takes some 20 of them.
MOST = 275
# And docs/watch.md, for a pair that goes into a recording without stacks.
MOST_RECORDED = 950


class Pairs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def instructions(self, pairs, way, settings):
        recording = self.folder / f"{way}-{pairs}.gpt"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")}
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.folder}/out", os.environ["PAIRS"], str(pairs),
             way, *([str(recording)] if way == "recorded" else [])],
            capture_output=True, text=True, timeout=300, check=False,
            env=environment | {"GPUPOOL_BACKEND": "sim"} | settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"Collected : (\d+)", done.stderr)
        self.assertIsNotNone(found, done.stderr)
        return int(found[1])

    def of_a_pair(self, way, **settings):
        many, few = (self.instructions(pairs, way, settings) for pairs in (MANY, FEW))
        return (many - few) / (MANY - FEW)

    def test_a_cached_pair_takes_no_more_than_it_may(self):
        plain = self.of_a_pair("plain")
        print(f"{plain:.1f} instructions a cached pair", file=sys.stderr)
        self.assertLessEqual(plain, MOST)
        # Samples, which are on unless told otherwise, tags, and a sleep that is over cost the hot path nothing.
        self.assertAlmostEqual(plain, self.of_a_pair("plain", GPUPOOL_SAMPLE="0"), delta=0.5)
        self.assertAlmostEqual(plain, self.of_a_pair("tagged"), delta=0.5)
        self.assertAlmostEqual(plain, self.of_a_pair("slept"), delta=0.5)

    def test_a_recorded_pair_takes_no_more_than_it_may(self):
        recorded = self.of_a_pair("recorded")
        print(f"{recorded:.1f} instructions a recorded pair", file=sys.stderr)
        self.assertLessEqual(recorded, MOST_RECORDED)


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed, and instructions are not counted", file=sys.stderr)
        sys.exit(77)
    unittest.main()
