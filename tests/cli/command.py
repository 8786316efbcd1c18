# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share. GPUPOOL_COMMAND is its path."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

COMMAND = os.environ["GPUPOOL_COMMAND"]
MIB = 1 << 20


def run(*arguments, environment=None, **options):
    """Runs the command, with more variables; returns exit status, standard output and standard error."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | (environment or {}),
        **options,
    )
    return done.returncode, done.stdout, done.stderr


def rounded(size):
    return (size + 511) // 512 * 512


class Workload:
    """A random trace, with what must be known of it."""

    def __init__(self, events=3000, streams=3, budget=256 * MIB, seed=1):
        pick = random.Random(seed)
        live = {}
        lines = ["# made up"]
        self.peak = now = 0
        for number in range(events):
            size = int(512 * 2 ** pick.uniform(0, 16))
            if live and now + rounded(size) > budget or pick.random() < 0.4 and live:
                name = pick.choice(list(live))
                now -= rounded(live.pop(name))
                lines.append(f"f {name}")
            elif now + rounded(size) <= budget:
                live[number] = size
                now += rounded(size)
                lines.append(f"a {number} {size} {pick.randrange(streams)}")
            self.peak = max(self.peak, now)
        self.live_at_end = len(live)
        self.events = len(lines) - 1
        self.streams = streams
        self.text = "\n".join(lines) + "\n"


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool_cli_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
