# SPDX-License-Identifier: Apache-2.0
"""Each failure that docs/elastic.md numbers has a test of its number, and each test that the table names is there."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAST = 44
# Numbers in names of tests: S1_S2_Title in C++, case_s7_s26_title and test_s23_title in Python.
NAMES = re.compile(r"\b(?:TEST(?:_F|_P)?\(\w+,\s*|def (?=case_|test_))(\w+)")
NUMBERS = re.compile(r"(?<![a-z0-9])s(\d+)(?=_)", re.IGNORECASE)
QUOTED = re.compile(r"`((?:\w*_)?[Ss]\d+_\w*|\w*Survived|\w*LoseNothing)(\.\.\.)?`")


def names_of_tests():
    folders = (("tests", "*.cpp"), ("tests", "*.py"), ("bindings/python/tests", "*.py"))
    sources = (path for folder, pattern in folders for path in (ROOT / folder).rglob(pattern))
    return {name for path in sources for name in NAMES.findall(path.read_text(encoding="utf-8"))}


def numbers_of(names):
    return {int(number) for name in names for number in NUMBERS.findall(name)}


def table_of(page):
    """For each row of the table of failures: its numbers, and the tests that it quotes, "name" or "prefix..."."""
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| S\d+", line)]
    return [
        ([int(n) for n in re.findall(r"S(\d+)", row[1])], ["".join(q) for q in QUOTED.findall(row[3])]) for row in rows
    ]


def is_there(quoted, names):
    prefix = quoted.removesuffix("...")
    return any(name.startswith(prefix) if prefix != quoted else name == quoted for name in names)


class KnownFailures(unittest.TestCase):
    def setUp(self):
        self.names = names_of_tests()
        self.table = table_of((ROOT / "docs/elastic.md").read_text(encoding="utf-8"))

    def test_each_number_has_a_test_of_its_name(self):
        self.assertEqual(sorted(set(range(1, LAST + 1)) - numbers_of(self.names)), [])

    def test_each_number_is_in_one_row(self):
        self.assertEqual(sorted(n for numbers, _ in self.table for n in numbers), list(range(1, LAST + 1)))

    def test_the_tests_that_the_table_names_are_there(self):
        for numbers, quoted in self.table:
            self.assertNotEqual(quoted, [], numbers)
            self.assertEqual([name for name in quoted if not is_there(name, self.names)], [], numbers)

    def test_what_is_missing_is_noticed(self):
        names = {"S1_S2_Title", "case_s7_s26_title", "test_s23_title", "FindsS9", "Ofs8_no"}
        self.assertEqual(numbers_of(names), {1, 2, 7, 26, 23})
        self.assertTrue(is_there("case_s7_...", names) and is_there("S1_S2_Title", names))
        self.assertFalse(is_there("S1_S2", names) or is_there("case_s8_...", names))
        table = table_of("| S1, S39 | what | `S1_S2_Title`, `ThatLastAreSurvived`; `make test` |\n| S2 | x | none |")
        self.assertEqual(table, [([1, 39], ["S1_S2_Title", "ThatLastAreSurvived"]), ([2], [])])


if __name__ == "__main__":
    unittest.main()
