# SPDX-License-Identifier: Apache-2.0
"""run_pages runs the blocks of a page, and fails for one that fails, or that it does not know how to run."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import run_pages

WAYS = {
    "sh": run_pages.WAYS["sh"],
    "console": run_pages.WAYS["console"],
    "py": run_pages.Way("a.py", "python3 a.py", before="x = 1\n", after="assert x\n"),
}


def block(language, text):
    return f"```{language}\n{text}\n```\n"


class Pages(unittest.TestCase):
    def run_page(self, text, *languages, without=()):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            page = Path(folder) / "PAGE.md"
            page.write_text(text)
            count, complaints = run_pages.run_page(page, Path(folder) / "work", languages, without, WAYS)
        return count, complaints, out.getvalue()

    def test_blocks_that_work(self):
        text = "Words\n" + block("sh", "test -d tests/data") + block("py", "x = x + 1")
        self.assertEqual(self.run_page(text)[:2], (2, []))
        self.assertEqual(self.run_page(text, "py")[:2], (1, []))

    def test_shell_sees_the_page_s_program_in_c(self):
        text = block("sh", "grep -q 'int main' app.c")
        mark = "<!-- not run: no compiler -->\n"
        self.assertEqual(self.run_page(text + mark + block("c", "int main"))[:2], (1, []))
        self.assertEqual(len(self.run_page(text)[1]), 1)

    def test_a_block_that_fails(self):
        for language, body in (("sh", "echo so; false; true"), ("py", "x = 0"), ("py", "x = ")):
            count, complaints, _ = self.run_page("\n" + block(language, body))
            self.assertEqual(count, 1)
            self.assertRegex(complaints[0], rf"^PAGE.md:2: {language}: exit status 1\n")

    def test_what_readers_do_not_see_is_around_a_block(self):
        inside = "<!-- run in:\ny = 1\n...\nassert y == 2\n-->\n"
        self.assertEqual(self.run_page(inside + block("py", "y += 1"))[:2], (1, []))
        self.assertEqual(len(self.run_page(inside + block("py", "y += 2"))[1]), 1)
        self.assertEqual(self.run_page("<!-- run in:\ny = 0\n-->\n" + block("py", "assert y == 0"))[:2], (1, []))

    def test_a_block_that_runs_as_another_language_does(self):
        self.assertEqual(self.run_page("<!-- run by sh -->\n" + block("py", "test -d tests/data"))[:2], (1, []))
        self.assertEqual(len(self.run_page("<!-- run by cobol -->\n" + block("py", "x = 1"))[1]), 1)

    def test_of_a_transcript_the_commands_run(self):
        self.assertEqual(self.run_page(block("console", "$ true\nfalse\n$ true"))[:2], (1, []))
        self.assertEqual(len(self.run_page(block("console", "$ true\n$ false"))[1]), 1)

    def test_text_is_no_code(self):
        self.assertEqual(self.run_page(block("text", "false"))[:2], (0, []))

    def test_a_block_that_is_not_run_says_why(self):
        count, complaints, out = self.run_page("<!-- not run: needs a GPU -->\n" + block("sh", "false"))
        self.assertEqual((count, complaints), (0, []))
        self.assertIn("PAGE.md:2: sh: not run: needs a GPU", out)

    def test_a_language_that_is_left_out(self):
        count, complaints, out = self.run_page(block("sh", "false") + block("py", ""), without=["sh"])
        self.assertEqual((count, complaints), (1, []))
        self.assertIn("PAGE.md:1: sh: not run: left out", out)

    def test_a_language_that_is_not_known(self):
        for language in ("cobol", ""):
            self.assertRegex(self.run_page(block(language, "x"))[1][0], "^PAGE.md:1: .*does not know how to run")

    def test_marks_that_mark_nothing(self):
        for text, words in (
            ("<!-- not run: why -->\n\n" + block("sh", "true"), "line 2: no block follows the mark"),
            ("<!-- not run -->\n" + block("sh", "true"), "line 1: a mark is"),
            ("<!-- run as sh -->\n" + block("py", "true"), "line 1: a mark is"),
            ("<!-- run in:\ntrue\n" + block("sh", "true"), "line 1: the mark does not end"),
            ("<!-- run in:\ntrue\n-->\n\n" + block("sh", "true"), "line 4: no block follows the mark"),
            ("<!-- not run: -->\n" + block("sh", "true"), "line 1: a mark is"),
            ("```sh\ntrue\n", "line 1: the block does not end"),
        ):
            self.assertIn(words, self.run_page(text)[1][0])

    def test_a_page_without_blocks_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            page = Path(folder) / "PAGE.md"
            page.write_text("Words\n")
            self.assertEqual(run_pages.main([folder, "--page", str(page)]), 1)


if __name__ == "__main__":
    unittest.main()
