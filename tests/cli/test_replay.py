#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs gpupool replay with traces that are in order. GPUPOOL_COMMAND is the path of the command."""

import gzip
import json
import pathlib
import unittest

from command import MIB, CommandTest, Workload, run

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data"


class Replay(CommandTest):
    LISTS = ("ns_per_event", "driver_calls", "driver_time_us", "hits", "misses", "steals")

    def replay_rows(self, *arguments, status=0):
        code, out, err = run("replay", "--device", "sim", "--json", *arguments)
        self.assertEqual(code, status, err)
        return [json.loads(line) for line in out.splitlines()], err

    def check_row(self, row, workload, passes=2):
        self.assertEqual(row["device"], "sim:0")
        self.assertEqual(row["events"], workload.events)
        self.assertEqual(row["streams"], workload.streams)
        self.assertEqual(row["peak_live_bytes"], workload.peak)
        self.assertGreaterEqual(row["peak_reserved_bytes"], workload.peak)
        self.assertAlmostEqual(row["reserved_over_live"], row["peak_reserved_bytes"] / workload.peak, places=5)
        self.assertEqual(row["passes"], passes)
        for name in self.LISTS:
            self.assertEqual(len(row[name]), passes, name)
        for index, calls in enumerate(row["driver_calls"]):
            by_kind = row["driver_calls_by_kind"]
            self.assertEqual(calls, sum(counts[index] for counts in by_kind.values()))
        for name in ("host_waits", "failed_allocations", "inconsistencies"):
            self.assertIsInstance(row[name], int)

    def test_streams_lend_each_other_gigabytes(self):
        # FSDP's gradients have a stream of their own, and each step the forward pass needs their memory. At the
        # program's pace that fits the pool's share of the time, so no stream keeps what it does not use; also with
        # two busy GPUs on a host, where a driver call takes three times as long as alone.
        options = ("--device", "sim", "--pace", "--passes", "6", "--json", str(RECORDED / "fsdp_train.trace.gz"))
        for scale in (1, 3):
            code, out, _ = run("replay", *options, environment={"GPUPOOL_SIM": f"price_scale={scale}"})
            self.assertEqual(code, 0)
            row = json.loads(out)
            self.assertLess(max(row["peak_reserved_bytes_by_pass"]), 1.05 * row["peak_live_bytes"])
            self.assertLess(max(row["driver_time_us"][2:]), scale * 0.002 * 7.0e6)

    def test_text_and_gzip_by_content(self):
        one, two = Workload(seed=1), Workload(seed=2, streams=5, events=1000)
        rows, err = self.replay_rows(
            self.write("one.trace.gz", one.text), self.write("two", gzip.compress(two.text.encode()))
        )
        self.assertEqual(err, "")
        self.assertEqual([row["trace"] for row in rows], ["one", "two"])
        self.check_row(rows[0], one)
        self.check_row(rows[1], two)
        for row in rows:
            self.assertEqual(row["failed_allocations"], 0)
            self.assertEqual(row["inconsistencies"], 0)
            self.assertNotIn("cap_over_live", row)
            self.assertGreater(row["driver_calls"][0], row["driver_calls"][1])

    def test_blocks_may_stay_live(self):
        workload = Workload()
        self.assertGreater(workload.live_at_end, 0)
        rows, _ = self.replay_rows("--passes", 3, self.write("t.trace", workload.text))
        self.check_row(rows[0], workload, passes=3)

    def test_words(self):
        path = self.write("some.trace", Workload().text)
        code, out, err = run("replay", "--device", "sim:2", path)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("device sim:2", out)
        self.assertIn("some", out)
        self.assertIn("reserved/live", out)

    def test_data(self):
        workload = Workload(budget=64 * MIB, events=1000)
        rows, err = self.replay_rows("--data", self.write("t.trace", workload.text))
        self.assertEqual(err, "")
        self.check_row(rows[0], workload)

    def test_driver_mode_and_dials(self):
        workload = Workload()
        path = self.write("t.trace", workload.text)
        for options in (["--mode", "driver"], ["--mode", "vmm"], ["--slack", 0.5], ["--max-chunk", "8MiB"]):
            with self.subTest(options=options):
                rows, _ = self.replay_rows(*options, path)
                self.check_row(rows[0], workload)

    def test_cap_that_is_kept(self):
        workload = Workload()
        path = self.write("t.trace", workload.text)
        for cap, limit in (("1.5x", -(-workload.peak * 3 // 2)), ("1GiB", 1 << 30), (str(1 << 30), 1 << 30)):
            with self.subTest(cap=cap):
                rows, _ = self.replay_rows("--cap", cap, path)
                self.check_row(rows[0], workload)
                self.assertEqual(rows[0]["cap_bytes"], limit)
                self.assertLessEqual(rows[0]["peak_reserved_bytes"], limit)
                self.assertEqual(rows[0]["failed_allocations"], 0)

    def test_cap_that_is_too_small(self):
        workload = Workload()
        rows, err = self.replay_rows("--cap", "0.5x", self.write("t.trace", workload.text), status=1)
        self.assertGreater(rows[0]["failed_allocations"], 0)
        self.assertEqual(rows[0]["inconsistencies"], 0)
        self.assertLessEqual(rows[0]["peak_reserved_bytes"], rows[0]["cap_bytes"])
        self.assertRegex(err, r"t: pass 1, event [\d,]+: block \d+ of .* could not be allocated: GPUPOOL_ERROR_")
        self.assertRegex(err, r"t: [\d,]+ allocations failed")

    def test_find_cap(self):
        workload = Workload()
        path = self.write("t.trace", workload.text)
        rows, _ = self.replay_rows("--find-cap", path)
        self.check_row(rows[0], workload)
        cap = rows[0]["cap_over_live"]
        self.assertGreaterEqual(cap, 1.0)
        self.assertLessEqual(cap, max(2.0, rows[0]["reserved_over_live"] + 0.001))
        rows, _ = self.replay_rows("--cap", f"{cap + 1e-6:.6f}x", path)
        self.assertEqual(rows[0]["failed_allocations"], 0)


if __name__ == "__main__":
    unittest.main()
