# SPDX-License-Identifier: Apache-2.0
"""The report of a comparison: tables that say what the lines say, plots that are well-formed."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import report

REPLAY = {
    "peer": "pytorch", "trace": "lm_train", "events": 10, "streams": 1, "peak_live_bytes": 10**10, "cap_over_live": 0,
    "timed": False, "completed": True, "out_of_memory": False, "passes": 3, "ns_per_event": [900, 250, 252],
    "reserved_over_live": [1.5, 1.6, 1.7],
}  # fmt: skip
LINES = [
    {"peer": "pytorch", "version": "2.11.0"},
    {"machine": {"gpu": "a GPU", "cores": 4, "date": "2026-01-02"}},
    {"peer": "pytorch", "case": "pair", "size": 4096, "threads": 1, "live_blocks": 0, "ns": 280.04},
    *({"peer": "pytorch", "case": "pair_own_streams", "size": 65536, "threads": threads, "live_blocks": 0,
       "ns": 300.0 * threads} for threads in (1, 2)),
    {"peer": "pytorch", "case": "pair", "size": 65536, "threads": 1, "live_blocks": 0, "sizes": 1, "floor": True,
     "ns": 281.0},
    {"peer": "pytorch", "case": "wandering_64", "size": 1 << 20, "threads": 8, "live_blocks": 0, "sizes": 8,
     "floor": False, "ns": 900.0},
    {"peer": "pytorch", "case": "latency", "live_blocks": 1, "mallocs": 0, "p50_ns": 0, "p99_ns": 0, "p9999_ns": 0,
     "most_ns": 0},
    REPLAY,
    REPLAY | {"cap_over_live": 1.02, "completed": False, "out_of_memory": True, "passes": 2},
    REPLAY | {"timed": True, "slow_ms": [201.0, 2.01]},
]  # fmt: skip


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, lines):
        file = self.folder / "lines.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
        report.main(self.folder, file)
        return (self.folder / "table.md").read_text(encoding="utf-8")

    def test_table(self):
        table = self.write(LINES)
        self.assertIn("| pair, 4 KiB | 1 | 280.0 |", table)
        self.assertIn("| floor: pair, 64 KiB | 1 | 281.0 |", table)
        self.assertIn("| wandering_64, up to 1 MiB | 8 | 900.0 |", table)
        self.assertIn("| lm_train | 1.600, 1.700 (3) |", table)
        self.assertIn("| lm_train | 900, 251 |", table)
        self.assertIn("| lm_train | out of memory in pass 2 |", table)
        self.assertIn("| lm_train | 201.0 (1.00 %), 2.0 (0.01 %) |", table)

    def test_what_was_not_measured_is_no_zero(self):
        self.assertIn("| 1 | 99.99 % | - |", self.write(LINES))

    def test_later_lines_count(self):
        table = self.write([*LINES, REPLAY | {"ns_per_event": [1, 2, 3]}])
        self.assertIn("| lm_train | 1, 2 |", table)

    def test_plots_are_well_formed(self):
        self.write(LINES)
        names = {file.name for file in self.folder.glob("*.svg")}
        self.assertEqual(names, {"pair_churn.svg", "pair_own_streams.svg", "reserved.svg", "cost.svg"})
        for name in names:
            ElementTree.parse(self.folder / name)

    def test_results_hold_every_line(self):
        self.write(LINES)
        self.assertEqual(json.loads((self.folder / "results.json").read_text(encoding="utf-8")), LINES)


if __name__ == "__main__":
    unittest.main()
