# SPDX-License-Identifier: Apache-2.0
"""What a public forge is given: forms that ask for a report and a recording, and the commands that those forms name."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


def fields(text):
    """The text of each field of a form, by its id."""
    return {re.search(r"\bid: (\w+)", part)[1]: part for part in re.split(r"\n  - type: ", text)[1:]}


class Forms(unittest.TestCase):
    def test_each_asks_for_a_report_and_a_trace(self):
        self.assertGreaterEqual(len(FORMS), 3)
        for path in FORMS:
            with self.subTest(form=path.name):
                asked = fields(path.read_text(encoding="utf-8"))
                self.assertIn("gpupool report", asked["report"])
                self.assertIn("gpupool_report", asked["report"])
                self.assertIn("gpupool record -o", asked["trace"])

    def test_whoever_met_a_bug_need_not_have_them(self):
        asked = fields((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8"))
        self.assertNotIn("required", asked["report"] + asked["trace"])

    def test_they_name_commands_that_exist(self):
        sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/cli").glob("*.cpp"))
        commands = set(re.findall(r'add_subcommand\(\s*"([a-z]+)"', sources))
        self.assertIn("replay", commands)
        for path in FORMS:
            named = set(re.findall(r"(?:`|label: )gpupool ([a-z]+)", path.read_text(encoding="utf-8")))
            self.assertTrue(named)
            self.assertLessEqual(named, commands, path.name)


if __name__ == "__main__":
    unittest.main()
