# SPDX-License-Identifier: Apache-2.0
"""check_commits sees subjects of another form, in the whole history since a base and in what a shallow clone has."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_commits

# Git as on any machine, also where a hook of this repository runs the test.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


class Subjects(unittest.TestCase):
    def test_good_ones(self):
        for subject in ("pool: settle before growing", "swig, node: drop what nobody calls", "device/cuda: ask once",
                        "docs: say why", "x: " + "y" * 69):  # fmt: skip
            self.assertIsNone(check_commits.complaint(subject), subject)

    def test_bad_ones(self):
        for subject, why in (
            ("x: " + "y" * 70, "73 characters"),
            ("Last session's work: graphs", "form"),
            ("Pool: settle", "form"),
            ("settle before growing", "form"),
            ("pool:settle", "form"),
            ("pool: ", "form"),
            ("pool: settle.", "full stop"),
            ("pool: the ledger counts", "imperative"),
            ("pool: Added a ledger", "imperative"),
            ("pool: adding", "imperative"),
            ("fixup! pool: settle", "squashed"),
        ):
            self.assertIn(why, check_commits.complaint(subject) or "", subject)


class Histories(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "whole"
        self.git("init", "-q", "-b", "main", self.root, at=folder.name)
        for subject in ("Old ways", "pool: begin"):
            self.commit(subject)
        self.base = self.git("rev-parse", "HEAD")
        self.commit("pool: go on")

    def git(self, *arguments, at=None):
        command = ["git", "-C", str(at or self.root), *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout.strip()

    def commit(self, subject):
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def check(self, root=None):
        """The exit status, and what is said."""
        output = io.StringIO()
        base = mock.patch.object(check_commits, "BASE", self.base)
        with base, mock.patch.dict(os.environ, ENVIRONMENT, clear=True), contextlib.redirect_stdout(output):
            return check_commits.main([str(root or self.root)]), output.getvalue()

    def shallow(self, depth):
        root = self.root.with_name(f"shallow{depth}")
        self.git("clone", "-q", "--depth", depth, self.root.as_uri(), root)
        return root

    def test_only_what_is_after_the_base(self):
        status, said = self.check()
        self.assertEqual(status, 0)
        self.assertIn(f"1 subjects are `area: imperative`, of the commits since {self.base[:7]}", said)
        self.commit("Some other way")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertRegex(said, '^[0-9a-f]{7,} Some other way: not in the form "area: imperative"\n$')

    def test_merges_are_git_s_own(self):
        self.git("checkout", "-q", "-b", "side", self.base)
        self.commit("pool: go aside")
        self.git("merge", "-q", "-m", "Merge branch main", "main")
        self.assertEqual(self.check()[0], 0)
        self.commit("After it")
        self.assertEqual(self.check()[0], 1)
        self.git("reset", "-q", "--hard", "HEAD~")
        status, said = self.check(self.shallow(1))
        self.assertEqual(status, 0)
        self.assertIn("0 subjects", said)

    def test_a_shallow_clone_says_what_it_has(self):
        status, said = self.check(self.shallow(1))
        self.assertEqual(status, 0)
        self.assertIn("1 subjects", said)
        self.assertIn(f"that this shallow clone has; {self.base[:7]} is not in it", said)
        self.assertIn("since", self.check(self.shallow(2))[1])
        self.commit("Some other way")
        root = self.root.with_name("again")
        self.git("clone", "-q", "--depth", 1, self.root.as_uri(), root)
        self.assertEqual(self.check(root)[0], 1)

    def test_a_base_that_is_nowhere_is_refused(self):
        self.base = "0123456789" * 4
        with self.assertRaises(SystemExit):
            self.check()

    def test_a_message_before_it_is_committed(self):
        path = self.root / "MESSAGE"
        for message, status in (("# x\n\npool: settle\n\nWhy.\n", 0), ("Settle\n", 1), ("", 1), ("Merge branch x", 0)):
            path.write_text(message)
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(check_commits.main(["--message", str(path)]), status, message)


if __name__ == "__main__":
    unittest.main()
