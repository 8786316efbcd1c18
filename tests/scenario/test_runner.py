# SPDX-License-Identifier: Apache-2.0
"""A runner fails where it should, and says where and why.

SCENARIO_RUNNER in the environment is the command of a runner in any language.
"""

import json
import os
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

RUNNER = shlex.split(os.environ.get("SCENARIO_RUNNER", ""))
CREATE = {"op": "create", "pool": "p"}
MALLOC = {"op": "malloc", "pool": "p", "block": "a", "size": 1000}
OTHER = {"op": "malloc", "pool": "p", "block": "b", "size": 1000}
FREE = {"op": "free", "pool": "p", "block": "a"}
REFUSED = "GPUPOOL_ERROR_UNKNOWN_POINTER"
ALLOCATED = "all.allocated_bytes.current"


@unittest.skipUnless(RUNNER, "SCENARIO_RUNNER is not set")
class Runner(unittest.TestCase):
    def run_steps(self, *steps):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bad.json"
            file.write_text(json.dumps({"name": "bad", "description": "", "steps": steps}))
            return subprocess.run([*RUNNER, str(file)], capture_output=True, text=True, timeout=120, check=False)

    def assert_fails(self, step, *before, says=()):
        """The last of the steps fails, those before do not."""
        result = self.run_steps(CREATE, *before, step)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stdout, "")
        for words in ("bad.json", f"step {len(before) + 2}", step["op"], *says):
            self.assertIn(words, result.stderr)

    def assert_unmet(self, step, expect, *before, says=()):
        self.assert_fails({**step, "expect": expect}, *before, says=says)

    def test_what_is_good(self):
        result = self.run_steps(CREATE, MALLOC, {**FREE, "expect": {"stats": {ALLOCATED: 0}}})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["pools"]["p"]), 108)

    def test_a_failure_that_is_not_expected(self):
        self.assert_fails(FREE, MALLOC, FREE, says=[REFUSED, "GPUPOOL_SUCCESS"])

    def test_a_success_that_is_not_expected(self):
        self.assert_unmet(FREE, {"status": REFUSED}, MALLOC, says=[REFUSED, "GPUPOOL_SUCCESS"])

    def test_another_failure(self):
        self.assert_unmet(FREE, {"status": "GPUPOOL_ERROR_OVER_LIMIT"}, MALLOC, FREE, says=[REFUSED])

    def test_a_message_without_the_words(self):
        self.assert_unmet(FREE, {"status": REFUSED, "message_contains": "no such words"}, MALLOC, FREE)

    def test_figures(self):
        for wrong in [1023, 1025, {"min": 1025}, {"max": 1023}, {"saved": "b", "plus": -1}, {"max": {"saved": "zero"}}]:
            saved = [{**MALLOC, "save": {"b": ALLOCATED, "zero": "failed_mallocs"}}, FREE]
            with self.subTest(wrong):
                self.assert_unmet(OTHER, {"stats": {ALLOCATED: wrong}}, *saved, says=[ALLOCATED, "1024"])

    def test_the_device_s_figure(self):
        self.assert_unmet(MALLOC, {"stats": {"device.free_bytes": 1}}, says=["device.free_bytes"])

    def test_a_figure_that_there_is_not(self):
        self.assert_unmet(MALLOC, {"stats": {"all.nonsense": {"min": 0}}})

    def test_addresses(self):
        self.assert_unmet(OTHER, {"same_address": "a"}, MALLOC)
        self.assert_unmet(OTHER, {"other_address": "a"}, MALLOC, FREE)
        self.assert_unmet(MALLOC, {"address_zero": True})
        self.assert_unmet({**MALLOC, "size": 0}, {"address_zero": False})

    def test_a_loop(self):
        """The second time the block is not live any more; b0 is done and b1 is not there."""
        self.assert_fails({**FREE, "for": [0, 2, 1]}, MALLOC, says=[REFUSED])
        self.assert_unmet({**MALLOC, "block": "b#", "for": [0, 3, 1]}, {"stats": {ALLOCATED: 4096}}, says=["3072"])

    def test_what_is_not_known(self):
        self.assert_fails({"op": "nonsense", "pool": "p"})
        self.assert_unmet(MALLOC, {"nonsense": 1})
        self.assert_fails({**MALLOC, "stream": "nonsense"})

    def test_every_file_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("bad.json", "good.json")]
            files[0].write_text(json.dumps({"name": "bad", "description": "", "steps": [CREATE, FREE]}))
            files[1].write_text(json.dumps({"name": "good", "description": "", "steps": [CREATE]}))
            result = subprocess.run([*RUNNER, *files], capture_output=True, text=True, timeout=120, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('"good"', result.stdout)

    def test_the_environments_limits(self):
        """They hold in every language."""
        file = Path(__file__).parent / "limited" / "environment.json"
        limits = {"GPUPOOL_LIMIT": "256MiB", "GPUPOOL_FRACTION": "0.5", "GPUPOOL_CAP": "75%,768MiB"}
        result = subprocess.run(
            [*RUNNER, str(file)],
            env={**os.environ, **limits},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
