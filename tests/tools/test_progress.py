# SPDX-License-Identifier: Apache-2.0
"""tools/progress.sh runs commands side by side, says how each ended, and shows why one failed."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/progress.sh"


class Progress(unittest.TestCase):
    def run_it(self, script):
        with tempfile.TemporaryDirectory() as folder:
            text = f"set -euo pipefail\nlogs={folder}/logs\n. {SCRIPT}\n{script}"
            return subprocess.run(["bash", "-c", text], stdout=subprocess.PIPE, text=True, check=False)

    def test_all_well(self):
        done = self.run_it("begin one echo noise\nbegin 'C#' sleep 0.1\nfinish\necho built:$built failed:$failed.")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"(?s)^   one: 0 s\n   C#: [01] s\nbuilt: one C# failed:\.\n$")

    def test_one_fails(self):
        done = self.run_it(
            "bad() { echo why; return 3; }\nbegin good true\nbegin bad bad\nfinish || echo code $?\n"
            "echo built:$built failed:$failed"
        )
        self.assertIn("   bad failed; the end of ", done.stdout)
        self.assertIn("      why\n", done.stdout)
        self.assertTrue(done.stdout.endswith("code 1\nbuilt: good failed: bad\n"), done.stdout)

    def test_a_failure_in_the_middle_counts(self):
        done = self.run_it("two() { false; true; }\nbegin two two\nfinish || echo code $?")
        self.assertTrue(done.stdout.endswith("code 1\n"), done.stdout)

    def test_lanes(self):
        count = "count() { echo begin >>$logs/all; sleep 0.5; echo end >>$logs/all; }"
        done = self.run_it(f"{count}\nlanes=2\nfor i in 1 2 3 4; do begin $i count; done\nfinish\ncat $logs/all")
        running, most = 0, 0
        for word in done.stdout.split():
            running += {"begin": 1, "end": -1}.get(word, 0)
            most = max(most, running)
        self.assertEqual((done.returncode, running, most, done.stdout.count("end")), (0, 0, 2, 4), done.stdout)


if __name__ == "__main__":
    unittest.main()
