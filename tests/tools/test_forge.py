# SPDX-License-Identifier: Apache-2.0
"""What a public forge is given: forms that ask for a report and a recording, and all parts of `make test`."""

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
        sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/cli").rglob("*.cpp"))
        commands = set(re.findall(r'(?:add_subcommand\(|new_command<\w+>\(app,)\s*"([a-z]+)"', sources))
        self.assertIn("replay", commands)
        for path in FORMS:
            named = set(re.findall(r"(?:`|label: )gpupool ([a-z]+)", path.read_text(encoding="utf-8")))
            self.assertTrue(named)
            self.assertLessEqual(named, commands, path.name)


class Workflows(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
        self.makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    def test_run_what_ci_runs(self):
        self.assertRegex((ROOT / ".ci/run").read_text(encoding="utf-8"), r"(?m)^make test$")
        parts = re.search(r"(?m)^PARTS := (.*)$", self.makefile)[1].split()
        self.assertIn("check", parts)
        run = re.search(r"(?m)^ +part: \[(.*)\]$", self.text)[1].split(", ")
        self.assertLessEqual(set(parts), set(run))

    def test_run_only_what_is_there(self):
        targets = set(re.findall(r"(?m)^([a-z-]+):(?!=)", self.makefile))
        for path in (ROOT / ".github/workflows").glob("*.yml"):
            text = path.read_text(encoding="utf-8")
            parts = [part for row in re.findall(r"(?m)^ +part: \[(.*)\]$", text) for part in row.split(", ")]
            self.assertLessEqual({*re.findall(r"\bmake ([a-z-]+)$", text, re.MULTILINE), *parts}, targets, path.name)
            for script in re.findall(r"\b(?:tools|tests)/[\w/.-]+\w", text):
                self.assertTrue((ROOT / script).is_file(), f"{path.name}: {script}")

    def test_see_the_commits_that_they_check(self):
        job = re.search(r"\n  part:\n(.*?)(?=\n  \w)", self.text, re.DOTALL)[1]
        self.assertRegex(job, r"uses: actions/checkout@v\d+\n +with:\n(?: +#.*\n)* +fetch-depth: 0\n")


if __name__ == "__main__":
    unittest.main()
