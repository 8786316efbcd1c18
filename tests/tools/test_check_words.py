# SPDX-License-Identifier: Apache-2.0
"""check_words finds a phrase however it is written, and replaces it."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_words

ROWS = "| not | but |\n|---|---|\n| `can not` | `cannot` |\n| `is got` | `is had` |\n"
NAMES = "| not | but |\n|---|---|\n| `give_back` | `release`, `refund` |\n| `obtain` | `allocate` |\n"
TYPES = "| type | file |\n|---|---|\n| `Turn` | `share/member.hpp` |\n"
PAGE = f"""# Words

| `a` | `b` |

## Not used

{ROWS}
## Inside

| word | what it is |
|---|---|
| range | addresses |

### Types with one meaning

{TYPES}
### Names of functions kept out

{NAMES}"""


class Words(unittest.TestCase):
    def check(self, text, path="src/x.cpp", page=PAGE, write=False):
        """Complaints about a repository with one file, and that file's text afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, content in ((path, text), (check_words.PAGE, page)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            return check_words.check(root, write)[0], (root / path).read_text()

    def test_found_and_replaced(self):
        for text, other in (
            ("// It can not be.\n", "// It cannot be.\n"),
            ("/* Can  not be. */", "/* Cannot be. */"),
            ("// it can\n  // not be\n", "// it cannot\n  // be\n"),
            ("/* it can\n * not be */", "/* it cannot\n * be */"),
            ("def test_can_not_be():", "def test_cannot_be():"),
            ("TEST(X, CanNotBe)", "TEST(X, CannotBe)"),
            ("How it is got.", "How it is had."),
            ("how it is\n/// got", "how it is\n/// had"),
        ):
            with self.subTest(text=text):
                complaints, _ = self.check(text)
                self.assertRegex(complaints[0], '^src/x.cpp:1: write "(cannot|is had)", not "(can not|is got)"$')
                _, after = self.check(text, write=True)
                self.assertEqual(after, other)
                self.assertEqual(self.check(after)[0], [])

    def test_left_alone(self):
        for text in ("cannot", "scan nothing", "can notice", "can, not", "this gotcha", "American notes", "CanNotice"):
            with self.subTest(text=text):
                self.assertEqual(self.check(text)[0], [])

    def test_where(self):
        for path in ("README.md", "Makefile", "docs/a.md", "bindings/go/a.go", "tests/x/b.c", "examples/c.rb"):
            self.assertEqual(len(self.check("it can not", path)[0]), 1, path)
        for path in ("bindings/rust/target/a.rs", "bindings/node/node_modules/a.js", "tests/data/x.gz"):
            self.assertEqual(self.check("it can not", path)[0], [], path)

    def test_names_of_functions(self):
        for text, name in (
            ("Status Pool::obtain(Lock& lock);", "obtain"),
            ("  uint64_t give_back(uint64_t bytes) noexcept;", "give_back"),
            ("  fences_.obtain(block);\n  heap->give_back (block);", "obtain"),
            ("void give_back_surplus() noexcept {", "give_back_surplus"),
            ("const auto give_back = [&] { (void)release(); };", "give_back"),
            ("Defer give_back([&] { put(); });", "give_back"),
            ("f(10'000, 'x'); obtain('y');", "obtain"),
        ):
            with self.subTest(text=text):
                complaints, _ = self.check(text)
                better = "(release or refund|allocate), see docs/words.md"
                self.assertRegex(complaints[0], f'^src/x.cpp:1: a function named "{name}": {better}$')
                self.assertEqual(self.check(text, write=True)[1], text, "no other name can be chosen by itself")

    def test_names_left_alone(self):
        for text in ("// It can obtain (a block).", "obtainable(x);", "uint64_t obtained(int);", '"obtain("'):
            with self.subTest(text=text):
                self.assertEqual(self.check(text)[0], [])
        for path in ("tests/x.cpp", "bindings/swig/src/x.hpp", "src/README.md"):
            self.assertEqual(self.check("obtain(x);", path)[0], [], path)

    def test_types_of_one_meaning(self):
        for text in ("class Turn {", "  struct Turn : NoCopy {", "class Turn final {"):
            for path in ("src/pool/x.cpp", "src/share/other.hpp"):
                with self.subTest(text=text, path=path):
                    complaints, _ = self.check(text, path)
                    self.assertEqual(complaints, [f"{path}:1: a type named Turn, which is that of share/member.hpp"])
        for text, path in (
            ("class Turn {", "src/share/member.hpp"),
            ("class Turn {", "src/cli/x.cpp"),
            ("class Turn;\nfriend class Turn;\nclass TakeTurn {", "src/pool/x.cpp"),
        ):
            with self.subTest(text=text, path=path):
                self.assertEqual(self.check(text, path)[0], [])

    def test_a_page_without_rows_is_refused(self):
        for page in ("# Words\n", PAGE.replace("`cannot` |", "cannot |"), PAGE.replace("| `allocate` |", "|")):
            with self.assertRaises(SystemExit):
                self.check("fine", page=page)


if __name__ == "__main__":
    unittest.main()
