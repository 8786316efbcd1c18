# SPDX-License-Identifier: Apache-2.0
"""The list of patterns in which a peer takes less: what is slower is in it, and nothing else."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "bench" / "slower.py"
LINE = {"pattern": "threads=2", "completed": True, "mean_ns": 300, "longest_ns": 900, "reserved_bytes": 10**9,
        "peak_live_bytes": 10**9, "failed_mallocs": 0}  # fmt: skip


class SlowerTest(unittest.TestCase):
    def listed(self, *lines, as_list=False):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "lines"
            texts = list(map(json.dumps, lines))
            file.write_text("[\n" + ",\n".join(texts) + "\n]\n" if as_list else "\n".join(texts) + "\n")
            return subprocess.run([sys.executable, SCRIPT, file], capture_output=True, text=True, check=True).stdout

    def test_what_is_slower_is_listed_with_the_best_peer(self):
        for as_list in (False, True):
            text = self.listed(
                LINE | {"peer": "gpupool", "mean_ns": 900},
                LINE | {"peer": "slow"},
                LINE | {"peer": "fast", "mean_ns": 200},
                as_list=as_list,
            )
            self.assertEqual(text.split(), "4.5 times mean_ns 900 fast 200 threads=2".split())

    def test_what_is_as_good_is_not(self):
        self.assertEqual(self.listed(LINE | {"peer": "gpupool"}, LINE | {"peer": "peer", "mean_ns": 290}), "")
        # Both are fast, or the peer had no memory, was broken off, or does not tell.
        few = {"mean_ns": 20, "reserved_bytes": 0}
        for other in (few, few | {"failed_mallocs": 5, "mean_ns": 1}, few | {"completed": False}):
            line = LINE | {"peer": "gpupool", "mean_ns": 90}
            self.assertEqual(self.listed(line, LINE | {"peer": "peer"} | other), "")

    def test_what_fails_only_here_is_listed(self):
        text = self.listed(LINE | {"peer": "gpupool", "failed_mallocs": 7}, LINE | {"peer": "peer"})
        self.assertIn("7.0 times  failed_mallocs", text)

    def test_needs_a_file(self):
        self.assertNotEqual(subprocess.run([sys.executable, SCRIPT], capture_output=True, check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
