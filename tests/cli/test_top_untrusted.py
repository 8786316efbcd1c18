#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupool top, and processes with odd names, odd tags and odd owners. top_target.py says what it needs."""

import json
import os
import subprocess
import sys
import unittest

from top_target import LIBRARY, MIB, TopTest

TAGS = """
pool = default_pool()
for tag in (b"x" * 58 + b"a", b"x" * 58 + b"b", b"\\xfe", b"\\xff", b"\\x1b[2J\\xc2\\x9b2J\\x7f\\xe2\\x80\\xae"):
    lib.gpupool_tag_push(tag)
    take(pool, 64 << 20)
    lib.gpupool_tag_pop()
stay()
"""
# A process that is in as many groups as a directory service may put a user into, in a PID namespace of its own.
MANY_GROUPS = """
os.setgroups(range(1000000000, 1000001000))
take(default_pool(), 1 << 20)
stay()
"""
CONTAINER = ["unshare", "--pid", "--fork", "--kill-child"]


def may_enter_a_namespace():
    if os.geteuid() != 0:  # who alone may choose its groups
        return False
    try:
        return subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Tags(TopTest):
    def test_tags_that_look_alike_are_one_series(self):
        """A page has room for the beginning of a name only, and what is not UTF-8 is shown as one character."""
        process = self.start_pool(TAGS)
        code, out, err = self.run_top("--prometheus", "--pid", str(process.pid))
        self.assertEqual((code, err), (0, ""))
        series = dict(line.rsplit(" ", 1) for line in out.splitlines() if line.startswith("gpupool_tag_live_bytes{"))
        self.assertEqual(len(series), out.count("\ngpupool_tag_live_bytes{"))
        self.assertEqual(sorted(map(int, series.values())), [64 * MIB, 128 * MIB, 128 * MIB])

    def test_nothing_moves_a_terminal(self):
        process = self.start_pool(TAGS)
        for form in ("--once", "--prometheus", "--json"):
            code, out, err = self.run_top(form, "--pid", str(process.pid))
            self.assertEqual((code, err), (0, ""))
            for character in out:
                self.assertTrue(character == "\n" or (character.isprintable() and character != "\u202e"), repr(out))
        tags = [tag["tag"] for tag in json.loads(out.splitlines()[0])["pools"][0]["tags"]]
        self.assertIn("\x1b[2J\x9b2J\x7f\u202e", tags)


@unittest.skipUnless(may_enter_a_namespace(), "the system allows no namespaces here")
class Containers(TopTest):
    def test_a_process_in_many_groups_is_seen(self):
        process = subprocess.Popen(
            [*CONTAINER, sys.executable, "-c", LIBRARY + MANY_GROUPS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        _, processes = self.objects()
        self.assertIn(1, [each["inner_pid"] for each in processes.values()])


if __name__ == "__main__":
    unittest.main()
