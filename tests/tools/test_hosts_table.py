# SPDX-License-Identifier: Apache-2.0
"""The table of hosts says what the tests came to, and each host has what a user needs."""

import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import hosts_table

HOSTS = json.loads((ROOT / "tests/hosts/hosts.json").read_text(encoding="utf-8"))


class Table(unittest.TestCase):
    def test_the_page_has_it(self):
        text = hosts_table.PAGE.read_text(encoding="utf-8")
        self.assertEqual(hosts_table.page_with(text, HOSTS), text)

    def test_another_outcome_changes_it(self):
        others = [{**host, "tried": [{"version": "0", "how": "burned"}]} for host in HOSTS]
        text = hosts_table.PAGE.read_text(encoding="utf-8")
        self.assertNotEqual(hosts_table.page_with(text, others), text)

    def test_versions_that_came_as_far_share_a_word(self):
        tried = [{"version": "1", "how": "ran"}, {"version": "2", "how": "ran"}, {"version": "3", "how": "compiled"}]
        line = hosts_table.row({"title": "T", "tried": tried, "line": "`x`", "lost": "y"})
        self.assertEqual(line, "| T | 1, 2: ran; 3: compiled | `x` | y |\n")

    def test_each_test_has_a_row_and_an_example(self):
        names = {host["name"] for host in HOSTS}
        for test in (ROOT / "tests/hosts").glob("host_*.py"):
            name = test.stem.removeprefix("host_")
            self.assertIn(name, names)
            self.assertTrue(any((ROOT / "examples/frameworks" / name).iterdir()), name)


if __name__ == "__main__":
    unittest.main()
