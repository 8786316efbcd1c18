# SPDX-License-Identifier: Apache-2.0
"""The record of hosts: what tools compare with it and write, the tables made of it, and that each host has what a user
needs."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import host_matrix
import host_record
import matrix
import torch_matrix
from host_record import Trial, Tried

HOSTS = host_record.read()


def said_by(function, *arguments, **named):
    """What it returns, and what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
        result = function(*arguments, **named)
    return result, said.getvalue()


class Record(unittest.TestCase):
    def test_the_pages_have_it(self):
        self.assertEqual(host_record.pages_with(HOSTS), {})

    def test_another_outcome_changes_them(self):
        others = [{**host, "tried": [{"version": "0", "how": "burned"}]} for host in HOSTS]
        self.assertEqual(set(host_record.pages_with(others)), set(host_record.PAGES))

    def test_each_step_means_something(self):
        for host in HOSTS:
            for each in host_record.kept(host):
                self.assertLessEqual(set(each.steps()), set(host_record.STEPS), host["name"])
                self.assertTrue(each.steps(), host["name"])
        self.assertLessEqual({*host_matrix.WAYS, *torch_matrix.STEPS}, set(host_record.STEPS))

    def test_each_test_has_a_row_and_an_example(self):
        names = {host["name"] for host in HOSTS}
        for test in (ROOT / "tests/hosts").glob("host_*.py"):
            name = test.stem.removeprefix("host_")
            self.assertIn(name, names)
            if name not in ("jax", "tensorflow"):  # they have no hook: docs/run.md has what there is
                self.assertTrue(any((ROOT / "examples/frameworks" / name).iterdir()), name)


class Tables(unittest.TestCase):
    def test_versions_that_came_as_far_share_a_word(self):
        tried = [{"version": "1", "how": "ran"}, {"version": "2", "how": "ran"}, {"version": "3", "how": "compiled"}]
        line = host_record.row({"title": "T", "tried": tried, "line": "`x`", "lost": "y"})
        self.assertEqual(line, "| T | 1, 2: ran; 3: compiled | `x` | y |\n")

    def test_minor_releases_in_a_row_are_a_span(self):
        for versions, words in ((["2.10.0", "2.9.1"], ["2.9 to 2.10"]), (["2.11.0", "2.9.1"], ["2.11.0", "2.9.1"]),
                                (["2.6.0"], ["2.6.0"]), (["0.3", "0.4"], ["0.3", "0.4"]), ([], [])):
            self.assertEqual(list(host_record.spans(versions)), words)

    def test_releases_of_pytorch_have_all_that_came_of_them(self):
        tried = [{"version": "2.11.0", "how": "compiled", "cuda": "13.0"}, {"version": "2.11.0", "how": "ran on a GPU"}]
        lines = host_record.table_of_pytorch([{"name": "torch", "tried": tried}]).splitlines()[2:]
        self.assertEqual(lines, ["| 2.11.0 | 13.0 | compiled, ran on a GPU |"])

    def test_a_release_is_a_line_of_steps(self):
        tried = [Tried("1", "compiled, ran on CPU (two, or 3)"), Tried("1", "ran on a GPU"), Tried("2", "compiled")]
        lines = host_record.grid([("T", tried), ("U", [])]).splitlines()
        self.assertEqual([line.split("|")[1:-1] for line in (lines[0], *lines[2:])], [
            [" host ", " release ", " compiled ", " ran on CPU ", " ran on a GPU "],
            [" T    ", " 1       ", " yes      ", " two, or 3  ", " yes          "],
            [" T    ", " 2       ", " yes      ", " -          ", " -            "]])

    def test_the_command_prints_what_is_kept(self):
        with unittest.mock.patch.object(sys, "argv", ["matrix.py", "--kept"]):
            result, said = said_by(matrix.main)
        self.assertEqual(result, 0)
        for host in HOSTS:
            self.assertIn(f"| {host['title']} ", said)
        for step in host_record.STEPS:
            self.assertIn(f"\n{step}: ", said)


class Comparing(unittest.TestCase):
    def setUp(self):
        self.record = Path(self.enterContext(tempfile.TemporaryDirectory())) / "hosts.json"
        self.enterContext(unittest.mock.patch.object(host_record, "RECORD", self.record))
        self.enterContext(unittest.mock.patch.object(host_record, "PAGES", {}))
        kept = [{"version": "1.0", "how": "imported"}, {"version": "1.2.0", "how": "compiled", "cuda": "13.0"},
                {"version": "1.2.0", "how": "ran on a GPU (H100)"}]
        self.record.write_text(json.dumps([{"name": "one", "title": "One", "tried": kept}]))

    def try_it(self, *tried, is_recorded=False, why=None, **named):
        trial = Trial(**named)
        for each in tried:
            said_by(trial.came, "one", each)
        if why:
            said_by(trial.skip, "one", why)
        return said_by(trial.end, is_recorded=is_recorded)

    def kept(self):
        return [(each.version, each.how) for each in host_record.kept(host_record.read()[0])]

    def test_the_same_and_other_releases_agree(self):
        self.assertEqual(self.try_it(Tried("1.2.0", "compiled"), Tried("1.3.0", "burned"))[0], 0)

    def test_another_outcome_fails(self):
        result, said = self.try_it(Tried("1.0", "ran on CPU"))
        self.assertEqual(result, 1)
        self.assertIn("one: hosts.json says of 1.0 `imported`, and it came to `ran on CPU`", said)

    def test_what_could_not_be_had_is_skipped(self):
        self.assertEqual(self.try_it(why="no network")[0], host_record.SKIPPED)

    def test_a_newer_release_takes_the_place_of_its_minor(self):
        self.assertEqual(self.try_it(Tried("1.2.1", "linked"), is_recorded=True)[0], 0)
        self.assertEqual(self.kept(), [("1.2.1", "linked"), ("1.0", "imported"), ("1.2.0", "ran on a GPU (H100)")])

    def test_what_is_out_of_date_goes_if_all_were_tried(self):
        self.try_it(Tried("1.1", "imported"), is_recorded=True, replaced=("imported",), why="no network")
        self.assertIn(("1.0", "imported"), self.kept())
        self.try_it(Tried("1.1", "imported"), is_recorded=True, replaced=("imported",))
        self.assertNotIn(("1.0", "imported"), self.kept())

    def test_the_whole_table_has_what_ran_on_a_gpu(self):
        self.assertNotIn("H100", self.try_it(Tried("1.2.0", "compiled"))[1])
        self.assertIn("H100", self.try_it(Tried("1.2.0", "compiled"), is_whole=True)[1])


if __name__ == "__main__":
    unittest.main()
