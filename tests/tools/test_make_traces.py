# SPDX-License-Identifier: Apache-2.0
"""The generated traces are valid, the same every time, and as large as they say."""

import gzip
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import make_traces

GIB = make_traces.GIB

# Least and most bytes live at the peak: what each kind promises.
LIVE = {
    "huge": (15 * GIB, 16 * GIB),
    "changing_mix": (7.5 * GIB, 8 * GIB),
    "near_powers": (3.5 * GIB, 4 * GIB),
    "small_blocks": (0.4 * GIB, 0.6 * GIB),
}


def play(lines):
    """The peak of live bytes, and all sizes; fails on what is no trace."""
    live, peak, total, sizes = {}, 0, 0, []
    for line in lines:
        if line.startswith("#"):
            continue
        kind, *numbers = line.split()
        block, *rest = map(int, numbers)
        if kind == "a":
            size, _ = rest
            assert block not in live and size > 0, line
            live[block] = -(-size // 512) * 512
            total += live[block]
            sizes.append(size)
        else:
            assert kind == "f" and not rest, line
            total -= live.pop(block)
        peak = max(peak, total)
    return peak, sizes


class MakeTracesTest(unittest.TestCase):
    def test_every_trace_is_valid_and_tells_its_live_bytes(self):
        for name in make_traces.NAMES:
            with self.subTest(name):
                lines = make_traces.make(name)
                peak, _ = play(lines)
                self.assertEqual(int(re.search(r"(\d+) bytes live", lines[0])[1]), peak)
                least, most = LIVE.get(name, (GIB / 4, 12 * GIB))
                self.assertGreaterEqual(peak, least)
                self.assertLessEqual(peak, most)

    def test_a_seed_makes_the_same_trace_and_another_makes_another(self):
        self.assertEqual(make_traces.make("shuffled", 7), make_traces.make("shuffled", 7))
        self.assertNotEqual(make_traces.make("shuffled", 7), make_traces.make("shuffled", 8))

    def test_huge_sizes_never_repeat(self):
        _, sizes = play(make_traces.make("huge"))
        self.assertEqual(len({-(-size // 512) for size in sizes}), len(sizes))
        self.assertGreaterEqual(min(sizes), 128 << 20)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            make_traces.main([folder, "torch_193400"])
            first = (Path(folder) / "torch_193400.trace.gz").read_bytes()
            make_traces.main([folder, "torch_193400"])
            self.assertEqual((Path(folder) / "torch_193400.trace.gz").read_bytes(), first)
            self.assertEqual(gzip.decompress(first).decode().splitlines(), make_traces.make("torch_193400"))

    def test_a_name_that_is_none_is_refused(self):
        with self.assertRaises(SystemExit):
            make_traces.main(["/nonexistent", "nothing_like_it"])


if __name__ == "__main__":
    unittest.main()
