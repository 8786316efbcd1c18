# SPDX-License-Identifier: Apache-2.0
"""Each failure that docs/sleep.md (S) and docs/inside/sharing.md (F and P) number has a test of its number,
and each test that the tables name is there."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The page with the table of a letter, and the last number.
PAGES = {
    "S": ("docs/sleep.md", 44),
    "F": ("docs/inside/sharing.md", 15),
    "P": ("docs/inside/sharing.md", 16),
}
# Numbers in names of tests: S1_S2_Title in C++, case_s7_s26_title and test_s23_title in Python.
NAMES = re.compile(r"\b(?:TEST(?:_F|_P)?\(\w+,\s*|def (?=case_|test_))(\w+)")
NUMBERS = re.compile(r"(?<![a-z0-9])([sfp])(\d+)(?=_)", re.IGNORECASE)
QUOTED = re.compile(r"`((?:\w*_)?[SsFfPp]\d+_\w*|\w*Survived|\w*LoseNothing)(\.\.\.)?`")


def names_of_tests():
    folders = (("tests", "*.cpp"), ("tests", "*.py"), ("bindings/python/tests", "*.py"))
    sources = (path for folder, pattern in folders for path in (ROOT / folder).rglob(pattern))
    return {name for path in sources for name in NAMES.findall(path.read_text(encoding="utf-8"))}


def numbers_of(names, letter):
    found = (pair for name in names for pair in NUMBERS.findall(name))
    return {int(number) for its_letter, number in found if its_letter.upper() == letter}


def table_of(page, letter):
    """For each row of the table of failures: its numbers, and the tests that it quotes, "name" or "prefix..."."""
    rows = [line.split("|") for line in page.splitlines() if re.match(rf"\| {letter}\d+", line)]
    return [
        ([int(n) for n in re.findall(rf"{letter}(\d+)", row[1])], ["".join(q) for q in QUOTED.findall(row[3])])
        for row in rows
    ]


def is_there(quoted, names):
    prefix = quoted.removesuffix("...")
    return any(name.startswith(prefix) if prefix != quoted else name == quoted for name in names)


class KnownFailures(unittest.TestCase):
    def setUp(self):
        self.names = names_of_tests()
        self.tables = {
            letter: (table_of((ROOT / page).read_text(encoding="utf-8"), letter), list(range(1, last + 1)))
            for letter, (page, last) in PAGES.items()
        }

    def test_each_number_has_a_test_of_its_name(self):
        for letter, (_, numbers) in self.tables.items():
            self.assertEqual(sorted(set(numbers) - numbers_of(self.names, letter)), [], letter)

    def test_each_number_is_in_one_row(self):
        for letter, (table, numbers) in self.tables.items():
            self.assertEqual(sorted(n for some, _ in table for n in some), numbers, letter)

    def test_the_tests_that_the_tables_name_are_there(self):
        for letter, (table, _) in self.tables.items():
            for numbers, quoted in table:
                self.assertNotEqual(quoted, [], (letter, numbers))
                self.assertEqual([name for name in quoted if not is_there(name, self.names)], [], (letter, numbers))

    def test_what_is_missing_is_noticed(self):
        names = {"S1_S2_Title", "case_s7_s26_title", "test_s23_title", "FindsS9", "Ofs8_no", "P1_F3_Title"}
        self.assertEqual(numbers_of(names, "S"), {1, 2, 7, 26, 23})
        self.assertEqual(numbers_of(names, "F"), {3})
        self.assertTrue(is_there("case_s7_...", names) and is_there("S1_S2_Title", names))
        self.assertFalse(is_there("S1_S2", names) or is_there("case_s8_...", names))
        page = "| S1, S39 | what | `S1_S2_Title`, `ThatLastAreSurvived`; `make test` |\n| S2 | x | none |"
        self.assertEqual(table_of(page, "S"), [([1, 39], ["S1_S2_Title", "ThatLastAreSurvived"]), ([2], [])])


if __name__ == "__main__":
    unittest.main()
