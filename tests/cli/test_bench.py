#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs gpupool bench. GPUPOOL_COMMAND is the path of the command."""

import json
import unittest

from command import MIB, CommandTest, run


class Bench(CommandTest):
    KEYS = ("case", "size", "threads", "live_blocks", "ns", "ns_min", "ns_max", "mutex_ns", "libc_ns")

    def test_json_rows(self):
        code, out, err = run("bench", "--device", "sim", "--json", "--threads", "1,2", "--seconds", "0.01")
        self.assertEqual((code, err), (0, ""))
        rows = [json.loads(line) for line in out.splitlines()]
        for row in rows:
            for key in self.KEYS:
                self.assertIn(key, row)
            self.assertLessEqual(row["ns_min"], row["ns"])
            self.assertLessEqual(row["ns"], row["ns_max"])
            self.assertGreater(row["mutex_ns"], 0)
            self.assertGreater(row["libc_ns"], 0)
        shapes = [(row["case"], row["size"], row["threads"], row["live_blocks"]) for row in rows]
        self.assertEqual(
            shapes,
            [("pair", size, 1, 0) for size in (512, 65536, MIB, 64 * MIB, 256 * MIB)]
            + [("pair_recorded", 65536, 1, 0)]
            + [("pair_own_streams", 65536, threads, 0) for threads in (1, 2)]
            + [("pair_one_stream", 65536, threads, 0) for threads in (1, 2)]
            + [(f"streams_in_turn_{streams}", 65536, 1, 0) for streams in (2, 8, 64)]
            + [(f"wandering_{streams}", MIB, 8, 0) for streams in (8, 64)]
            + [(f"sizes_in_turn_{sizes}", 512 * sizes, 1, 0) for sizes in (64, 1024)]
            + [("pair_parked", 65536, 1, 0)]
            + [("free_elsewhere", 65536, 2, 0), ("free_elsewhere_8", MIB, 2, 0), ("ring", 0, 2, 0)]
            + [("churn", 16 * MIB, 1, 1000), ("churn", MIB, 1, 10000)]
            + [("churn", 65536, 1, 100000), ("churn", 65536, 1, 1000000)],
        )
        # A row of one small size is a floor, and says so; of large blocks, and of the ring, there is one.
        for row in rows:
            is_one_small = row["sizes"] == 1 and 0 < row["size"] < MIB
            self.assertEqual(row["floor"], is_one_small, row["case"])
        many = {row["case"] for row in rows if row["sizes"] > 1}
        wandering, in_turn = {"wandering_8", "wandering_64"}, {"sizes_in_turn_64", "sizes_in_turn_1024"}
        self.assertEqual(many, wandering | in_turn | {"free_elsewhere_8", "churn"})

    def test_words(self):
        code, out, err = run("bench", "--device", "sim", "--threads", "1", "--seconds", "0.01")
        self.assertEqual((code, err), (0, ""))
        for word in ("floor: pair_own_streams", "floor: free_elsewhere", "\nfree_elsewhere_8", "\nchurn", "mutex ns"):
            self.assertIn(word, out)


if __name__ == "__main__":
    unittest.main()
