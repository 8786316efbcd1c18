# SPDX-License-Identifier: Apache-2.0
"""The comparison of replays sees a difference, and nothing where only time differs."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import compare_replays

LINE = {"device": "sim:0", "trace": "t", "events": 2, "ns_per_event": [1.0, 2.0], "peak_live_bytes": 512,
        "peak_reserved_bytes": 1 << 21}


class Comparison(unittest.TestCase):
    def test_time_may_differ(self):
        other = LINE | {"language": "go", "ns_per_event": [9.0, 9.0]}
        self.assertEqual(compare_replays.differences(LINE, other), [])
        self.assertEqual([row[-1] for row in compare_replays.rows([LINE, other])][1:], ["identical", "identical"])

    def test_a_figure_may_not(self):
        other = LINE | {"language": "go", "peak_reserved_bytes": 1 << 22}
        self.assertEqual(compare_replays.differences(LINE, other), ["peak_reserved_bytes"])
        self.assertIn("differ", list(compare_replays.rows([LINE, other]))[2][-1])

    def test_on_a_gpu_the_drivers_time_decides_some(self):
        gpu = LINE | {"device": "cuda:0"}
        self.assertEqual(compare_replays.differences(gpu, gpu | {"peak_reserved_bytes": 1 << 22}), [])
        self.assertEqual(compare_replays.differences(gpu, gpu | {"peak_live_bytes": 1024}), ["peak_live_bytes"])

    def test_a_figure_that_the_reference_lacks_differs(self):
        self.assertEqual(compare_replays.differences(LINE, LINE | {"steals": [0, 0]}), ["steals"])


if __name__ == "__main__":
    unittest.main()
