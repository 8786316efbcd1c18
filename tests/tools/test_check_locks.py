# SPDX-License-Identifier: Apache-2.0
"""check_locks finds a lock without a row, a row without a lock, and rows that say nothing about fork."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_locks

ROWS = """| order | lock | guards | around fork |
|---|---|---|---|
| 1 | `pool/a.hpp`, `mutex_` | everything | taken |
| leaf | `base/b.cpp`, `gate` | the gate | excused: no child gets here |
"""
SOURCES = {
    "src/pool/a.hpp": "#include <mutex>\nclass A {\n  mutable std::mutex mutex_;  // std::mutex other;\n};\n",
    "src/base/b.cpp": "class SpinLock {};\nconstinit SpinLock gate{};\nusing Lock = std::unique_lock<std::mutex>;\n",
    "src/cli/c.cpp": "std::mutex of_the_command;\n",
}


class Locks(unittest.TestCase):
    def complaints(self, rows=ROWS, **changed):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            files = SOURCES | {f"src/pool/{name}.hpp": text for name, text in changed.items()}
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            (root / check_locks.PAGE).parent.mkdir(parents=True)
            (root / check_locks.PAGE).write_text(f"# Page\n\n## Locks\n\n{rows}\n## Else\n\n| 9 | x |\n")
            return check_locks.check(root)[0]

    def test_a_table_that_is_true(self):
        self.assertEqual(self.complaints(), [])

    def test_a_lock_without_a_row(self):
        for text in (
            "std::shared_mutex m;",
            "static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;",
            "SpinLock m{};",
            "std::once_flag m;",
            "thread_local std::recursive_mutex\n    m;",
        ):
            with self.subTest(text=text):
                words = f"src/pool/new.hpp: the lock m has no row in {check_locks.PAGE}, section Locks"
                self.assertEqual(self.complaints(new=text), [words])

    def test_a_variable_with_a_guard(self):
        for text, words in (
            ("int f() {\n  static const int x = g();\n  return x;\n}", "2: {}, static const int x = g()"),
            ("T& f() { if (a) { static auto* const t = new T; } }", "1: {}, static auto* const t = new T"),
            ("class A {\n  int f() {\n    static T t{1};\n  }\n};", "3: {}, static T t"),
            ("auto f = [] { static T t; };", "1: {}, static T t"),
        ):
            with self.subTest(text=text):
                line, declaration = words.split(": {}, ")
                expected = f"src/pool/new.hpp:{line}: a guard that fork may leave taken, not constinit: {declaration}"
                self.assertEqual(self.complaints(new=text), [expected])

    def test_what_needs_no_guard(self):
        for text in (
            "namespace n {\nstatic int x = g();\nstatic int f(int a) { return a; }\n}",
            "class A {\n  static int x;\n  static int f() noexcept;\n  static constexpr int k = 3;\n};",
            "int f() {\n  static constexpr int a[] = {1};\n  static constinit int b{2};\n  static_assert(1);\n}",
        ):
            with self.subTest(text=text):
                self.assertEqual(self.complaints(new=text), [])

    def test_a_second_lock_of_the_same_name(self):
        two = "struct A { std::mutex mutex_; };\nstruct B { std::mutex mutex_; };"
        self.assertEqual(len(self.complaints(a=two)), 1)

    def test_a_lock_in_a_form_that_hides_it(self):
        for text in ("auto& m = *new std::mutex;", "std::mutex a, b;", "SpinLock* m;"):
            with self.subTest(text=text):
                self.assertRegex(self.complaints(new=text)[0], "new.hpp:1: a lock that is not a plain variable")

    def test_what_is_no_lock(self):
        text = "pthread_t t;\nvoid f(std::mutex& m);\nstd::lock_guard<std::mutex> lock(m);\nvoid SpinLock::f();\n"
        text += "using Mutex = std::mutex;\nextern constinit os::Mutex of_another_file;\n"
        self.assertEqual(self.complaints(new=text), [])

    def test_a_row_without_a_lock(self):
        gone = "| 2 | `pool/a.hpp`, `gone_` | nothing | taken |\n| leaf"
        self.assertEqual(
            self.complaints(rows=ROWS.replace("| leaf", gone)),
            [f"{check_locks.PAGE}: there is no lock gone_ in src/pool/a.hpp"],
        )

    def test_rows_that_say_nothing(self):
        for row in (
            "| 1 | `pool/a.hpp`, `mutex_` | everything | excused: |",
            "| 1 | `pool/a.hpp`, `mutex_` | everything | fine |",
            "| first | `pool/a.hpp`, `mutex_` | everything | taken |",
        ):
            with self.subTest(row=row):
                rows = ROWS.replace("| 1 | `pool/a.hpp`, `mutex_` | everything | taken |", row)
                found = self.complaints(rows=rows)
                self.assertEqual(len(found), 2)
                self.assertIn(row, found[0])

    def test_order(self):
        lines = ROWS.splitlines(keepends=True)
        self.assertEqual(
            self.complaints(rows="".join([lines[0], lines[1], lines[3], lines[2]])),
            [f"{check_locks.PAGE}: `pool/a.hpp`, `mutex_` is not in order"],
        )

    def test_an_empty_repository_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / check_locks.PAGE).parent.mkdir(parents=True)
            (Path(folder) / check_locks.PAGE).write_text("## Locks\n")
            self.assertEqual(check_locks.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()
