#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What commands that take over a second say meanwhile, if standard error is a terminal. Uses GPUPOOL_COMMAND and
GPUPOOL_LIBRARY."""

import os
import pathlib
import pickle
import pty
import re
import subprocess
import sys
import tempfile
import threading
import unittest

from command import COMMAND, CommandTest, run
from top_target import LIBRARY

# Two pools: to tell what each of them did, with its least limit, takes longer than a second.
WORKS = LIBRARY + """
import random
for number in range(2):
    pool, pick, live = ctypes.c_void_p(), random.Random(number), []
    assert lib.gpupool_create(None, ctypes.byref(pool)) == 0
    for _ in range(500_000 - 300_000 * number):
        if len(live) > 200:
            assert lib.gpupool_free(pool, live.pop(pick.randrange(200)), 0) == 0
        live.append(take(pool, pick.randrange(1 << 12, 4 << 20)))
"""
BAR = re.compile(r"\r\x1b\[K\[#*\.*\] +\d+ %  (.*?)(?=\r)")


class Progress(CommandTest):
    def labels(self, *arguments):
        """What bars on a terminal say, in their order; the rest of what is written there."""
        try:
            terminal, inner = pty.openpty()
        except OSError as error:  # a chroot without /dev/pts
            self.skipTest(str(error))
        written = []

        def read():
            while True:
                try:
                    written.append(os.read(terminal, 65536))
                except OSError:  # all who had the other end have closed it
                    return

        reader = threading.Thread(target=read)
        reader.start()
        words = [COMMAND, *map(str, arguments)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=inner, text=True) as command:
            os.close(inner)
            output, _ = command.communicate(timeout=300)
        reader.join()
        os.close(terminal)
        text = b"".join(written).decode()
        self.assertEqual(command.returncode, 0, text)
        self.assertNotIn("\x1b", output)
        self.assertEqual(re.sub(r"\r\x1b\[K", "", BAR.sub("", text)), "")  # wiped at the end
        return list(dict.fromkeys(BAR.findall(text)))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.recording = pathlib.Path(folder.name) / "long.gpt"
        code, _, err = run("record", "-o", cls.recording, "--", sys.executable, "-c", WORKS)
        assert code == 0, err

    def test_report_and_advise_say_what_they_are_at(self):
        labels = self.labels("report", "-o", self.folder / "page.html", self.recording)
        self.assertIn("writing the page", labels)
        self.assertTrue([label for label in labels if label.startswith("long.gpt: find-cap, try ")], labels)
        self.assertTrue([label for label in labels if re.fullmatch(r"what pool \d did", label)], labels)
        labels = self.labels("advise", "--pool", 1, self.recording)
        self.assertTrue([label for label in labels if label.startswith("long.gpt: find-cap, try ")], labels)


    def test_import_says_what_it_is_at(self):
        snapshot = self.folder / "long.pickle"
        place = {"addr": 1 << 40, "size": 512, "stream": 0, "time_us": 1, "frames": []}
        events = [{"action": "alloc", **place}, {"action": "free_completed", **place}]
        made = pickle.dumps({"device_traces": [events], "segments": []}, protocol=2)
        snapshot.write_bytes(made[:-1] + b"q\x00" * 80_000_000 + made[-1:])  # names the same value again and again
        labels = self.labels("import", snapshot, "--format", "recording", "-o", self.folder / "again.gpt")
        self.assertEqual(labels[-3:], ["reading the pickle", "what device 0 did", "packing"])

    def test_none_is_shown_where_no_terminal_is(self):
        code, _, err = run("advise", "--pool", 1, self.recording)
        self.assertEqual((code, err), (0, ""))


if __name__ == "__main__":
    unittest.main()
