#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the commands say of real programs: those that tests/data has recorded, played again. GPUPOOL_COMMAND is the
command, GPUPOOL_LIBRARY the library."""

import json
import os
import subprocess
import sys
import unittest

import played
import test_report

HERE = test_report.HERE
KIB = 1 << 10
TRACES = sorted((HERE.parent / "data").glob("*.trace.gz"))
MARKS = 20


class Leaks(test_report.Case):
    def test_a_small_one_is_found_in_each_and_nothing_else(self):
        for trace in TRACES:
            with self.subTest(trace.name):
                path = self.folder / f"{trace.name}.gpt"
                program = [sys.executable, HERE / "played.py", trace, str(MARKS)]
                status, _, said = test_report.run("record", "-o", path, "--stacks", "none", "--", *program)
                self.assertEqual(status, 0, said)
                status, (site,) = self.leaks(path, "--growing", "--fail-over", "1MiB")
                self.assertEqual((status, site["tag"], site["blocks"], site["bytes_per_mark"]),
                                 (1, "planted", MARKS, 64 * KIB))
                self.assertEqual(self.leaks(path, "--growing", "--fail-over", "2MiB")[0], 0)
                # Beside it, what the program has not freed when it ends, which is its weights.
                live = {}
                for block, *made in played.events_of(trace):
                    live.update({block: played.rounded(made[0])}) if made else live.pop(block)
                held = sum(live.values()) + MARKS * 64 * KIB
                status, sites = self.leaks(path, "--fail-over", str(held - 1), "--count", "10000")
                self.assertEqual(status, 1)
                self.assertEqual(sites[0], site)
                self.assertEqual(sum(one["bytes"] for one in sites), held)
                self.assertEqual(sum(one["blocks"] for one in sites), len(live) + MARKS)
                self.assertEqual(self.leaks(path, "--fail-over", str(held))[0], 0)


class Replays(test_report.Case):
    def test_what_was_recorded_is_replayed_to_the_byte(self):
        """Recorded, exported and replayed again, a program has the same peaks, steals and driver calls."""
        replay = ("replay", "--device", "sim", "--passes", "1", "--json")
        for trace in TRACES:
            with self.subTest(trace.name):
                recording, again = self.folder / "it.gpt", self.folder / "again.trace"
                status, first, said = test_report.run("record", "-o", recording, "--", os.environ["GPUPOOL_COMMAND"],
                                                      *replay, trace)
                self.assertEqual(status, 0, said)
                self.assertEqual(test_report.run("export", recording, "-o", again)[0], 0)
                recording.unlink()
                first, second = json.loads(first.splitlines()[0]), json.loads(test_report.run(*replay, again)[1])
                # The replay has freed what was left.
                self.assertGreaterEqual(second["events"], first["events"])
                for figure in ("trace", "file", "events", "ns_per_event"):
                    del first[figure], second[figure]
                self.assertEqual(second, first)


class Holders(unittest.TestCase):
    def test_the_three_largest_are_known_within_ten_per_cent(self):
        for trace in TRACES:
            # The density that is the default, but not thinned if this machine is slow.
            done = subprocess.run([sys.executable, HERE / "played.py", trace, "holders"], check=True, text=True,
                                  stdout=subprocess.PIPE, env=os.environ | {"GPUPOOL_SAMPLE": "1MiB"})
            told = json.loads(done.stdout)
            live, samples = told["live"], told["samples"]
            for tag in sorted(live, key=live.get, reverse=True)[:3]:
                with self.subTest(trace.name, tag=tag, share=live[tag] / sum(live.values())):
                    self.assertAlmostEqual(samples.get(tag, 0) / live[tag], 1, delta=0.1)


if __name__ == "__main__":
    unittest.main()
