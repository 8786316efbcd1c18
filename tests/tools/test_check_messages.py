# SPDX-License-Identifier: Apache-2.0
"""check_messages sees long messages, and messages of several lines, wherever a call makes them."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_messages


def complaints(text):
    return list(check_messages.complaints(text))


class Messages(unittest.TestCase):
    def test_long_ones(self):
        words = "x" * 161
        for call in (f'fail(kInvalid, "{words}")', f'faults_.refuse(1, "{words}")', f'cuda_failed(code, "{words}")',
                     f'throw InputError("{words}")', f'throw InputError(fmt::format("{words}", 1))',
                     f'fmt::print(stderr, "gpupool: {words}\\n")', f'say(fmt::format("{words}", 1))',
                     f'log_line(LEVEL, "{words}")'):  # fmt: skip
            found = complaints(f"\n  {call};")
            self.assertEqual(len(found), 1, call)
            self.assertEqual(found[0][0], 2)

    def test_ones_of_several_parts(self):
        parts = 'fail(kInvalid,\n  "{}"\n  "{}%" PRIu64 " bytes")'
        self.assertEqual(complaints(parts.format("x" * 70, "y" * 70)), [])
        self.assertEqual(len(complaints(parts.format("x" * 80, "y" * 70))), 1)

    def test_values_count_and_what_is_quoted_does_not(self):
        self.assertEqual(len(complaints('fail(kInvalid, "{} %s")'.format("x" * 155))), 1)
        self.assertEqual(complaints('fail(kInvalid, "{} \\"%.200s\\"")'.format("x" * 155)), [])

    def test_several_lines(self):
        self.assertEqual(complaints('fmt::print(stderr, "one line\\n")'), [])
        self.assertEqual(complaints('fail(kInvalid, "one\\ntwo")'), [(1, "a message of several lines")])

    def test_other_text(self):
        self.assertEqual(complaints(f'add_option("{"x" * 200}"); failures("{"x" * 200}")'), [])


if __name__ == "__main__":
    unittest.main()
