# SPDX-License-Identifier: Apache-2.0
"""The comparison sees every kind of difference that runners can have."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import compare

ONE = '{"name":"one","pools":{"p":{"hits":1,"misses":2}}}'
TWO = '{"name":"two","pools":{}}'


class Comparison(unittest.TestCase):
    def compare(self, *texts, options=()):
        """The exit status and what is printed for runners that printed these texts."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"runner{number}" for number in range(len(texts))]
            for file, text in zip(files, texts, strict=True):
                file.write_text(text)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                status = compare.main([*options, *map(str, files)])
            return status, printed.getvalue()

    def test_the_same(self):
        status, text = self.compare(f"{ONE}\n{TWO}\n", f"{ONE}\n{TWO}\n", f"{TWO}\n{ONE}\n")
        self.assertEqual((status, text), (0, "identical: 2 scenarios in 3 files\n"))

    def assert_differs(self, expected, *texts):
        status, text = self.compare(*texts)
        self.assertEqual(status, 1)
        self.assertIn(expected, text)

    def test_a_figure_that_differs(self):
        self.assert_differs("one: p hits: 1 in ", ONE, ONE, ONE.replace('"hits":1', '"hits":3'))

    def test_a_figure_that_is_missing(self):
        self.assert_differs("missing in", ONE, ONE.replace('"hits":1,', ""))

    def test_a_pool_that_is_missing(self):
        self.assert_differs("one: p hits: 1 in", ONE, '{"name":"one","pools":{}}')

    def test_a_scenario_that_is_missing(self):
        self.assert_differs("two: missing in", f"{ONE}\n{TWO}", ONE)
        self.assert_differs("two: missing in", ONE, f"{ONE}\n{TWO}")

    def test_the_way_it_is_written(self):
        self.assert_differs("written differently", ONE, ONE.replace(",", ", "))

    def test_time(self):
        """On a GPU, calls of the driver may differ, and what is handed out may not."""
        line = '{"name":"one","pools":{"p":{"all.chunks.peak":1,"all.requested_bytes.peak":2,"failed_mallocs":3}}}'
        for key, expected in (("chunks.peak", 0), ("requested_bytes.peak", 1), ("failed_mallocs", 1)):
            other = line.replace(f'{key}":', f'{key}":4')
            self.assertEqual(self.compare(line, other, options=["--gpu"])[0], expected)
            self.assertEqual(self.compare(line, other)[0], 1)

    def test_nothing_to_compare(self):
        self.assert_differs("no scenarios", "", "")

    def test_what_is_no_runner_s_output(self):
        for text in ["{}", "[]", "Segmentation fault", f"{ONE}\n{ONE}"]:
            with self.subTest(text), self.assertRaises(SystemExit) as end:
                self.compare(ONE, text)
            self.assertNotEqual(end.exception.code, 0)


if __name__ == "__main__":
    unittest.main()
