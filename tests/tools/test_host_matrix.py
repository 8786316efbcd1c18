# SPDX-License-Identifier: Apache-2.0
"""host_matrix says how far a release came, and fails where one does not work."""

import contextlib
import io
import json
import re
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import host_matrix
import host_record
from host_matrix import Library, Unavailable

PROGRAM = """
import sys
from pathlib import Path
name = (Path(sys.argv[1]) / "name").read_text()
assert name != "2.0.0", "the method is gone"
print("a warning")
print("imported\\tno GPU" if name == "3.0.0" else "ran on CPU")
"""


class Matrix(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "release_one.py").write_text(PROGRAM)
        self.record = self.folder / "hosts.json"
        self.record.write_text(json.dumps([{"name": "one", "title": "One", "tried": [
            {"version": "0.9", "how": "ran on CPU"}, {"version": "3.0", "how": "ran on a GPU"}]}]))
        self.newest = "3.0.0"
        for name, value in {"PROGRAMS": self.folder, "fetch": self.fetch, "HOSTS": ("one",),
                            "HAS": "import sys", "LIBRARIES": (Library("one", "one", "1.0.0"),)}.items():
            self.enterContext(unittest.mock.patch.object(host_matrix, name, value))
        for name, value in {"RECORD": self.record, "PAGES": {}}.items():
            self.enterContext(unittest.mock.patch.object(host_record, name, value))

    def fetch(self, library, version, folder, python):
        if self.newest is None:
            raise Unavailable("no network")
        (folder / "name").write_text(version or self.newest)
        return version or self.newest

    def run_it(self, *options):
        said = io.StringIO()
        with (contextlib.redirect_stdout(said), contextlib.redirect_stderr(said),
              unittest.mock.patch.object(sys, "argv", ["host_matrix.py", *options])):
            return host_matrix.main(), said.getvalue().splitlines()

    def test_a_cell_says_how_far_it_came(self):
        result, lines = self.run_it()
        self.assertEqual((result, lines[:2]), (0, ["one 1.0: ran on CPU", "one 3.0: imported: no GPU"]))
        self.assertEqual(
            lines[-2:], ["| One  | 1.0     | -        | yes        |", "| One  | 3.0     | yes      | -          |"])

    def test_another_outcome_than_the_record_has_fails(self):
        self.record.write_text(self.record.read_text().replace("0.9", "1.0").replace("CPU", "CPU (50 runs)"))
        result, lines = self.run_it()
        self.assertEqual(result, 1)
        self.assertIn("one: hosts.json says of 1.0 `ran on CPU (50 runs)`", "\n".join(lines))

    def test_a_python_without_gpupool_tries_nothing(self):
        with unittest.mock.patch.object(host_matrix, "HAS", "import no_such_module"):
            result, lines = self.run_it()
        self.assertEqual(result, 77)
        self.assertIn("has no gpupool; skipped", lines[0])

    def test_one_that_does_not_work_fails(self):
        self.newest = "2.0.0"
        result, lines = self.run_it()
        self.assertEqual(result, 1)
        self.assertIn("the method is gone", "\n".join(lines))

    def test_one_that_cannot_be_had_is_skipped(self):
        self.newest = None
        result, lines = self.run_it()
        self.assertEqual(result, 77)
        self.assertEqual(lines[:2], [f"one: one {name}: no network; skipped" for name in ("1.0.0", "newest")])

    def test_the_record_keeps_what_ran_on_a_gpu(self):
        self.run_it("--record")
        [host] = json.loads(self.record.read_text())
        self.assertEqual(host["tried"], [
            {"version": "1.0", "how": "ran on CPU"}, {"version": "3.0", "how": "imported"},
            {"version": "3.0", "how": "ran on a GPU"}])

    def test_a_release_is_named_as_its_row_needs(self):
        named = Library("numba", "numba-cuda[cu12]", "0.15.0", is_named=True)
        self.assertEqual([Library("a", "b", "1").label("1.0.2"), named.label("0.30.4"), named.label("0.15.0")],
                         ["1.0", "numba-cuda 0.30.4", "numba-cuda 0.15"])


class Reading(unittest.TestCase):
    def test_each_library_has_a_row_and_a_program(self):
        rows = {host["name"] for host in host_record.read()}
        used = set()
        for library in host_matrix.LIBRARIES:
            self.assertIn(library.host, rows)
            used.add(host_matrix.program_of(library))
        self.assertEqual(used, set(host_matrix.PROGRAMS.glob("release_*.py")))

    def test_the_package_asks_for_the_oldest_release(self):
        text = (host_matrix.ROOT / "bindings/python/pyproject.toml").read_text(encoding="utf-8")
        extra = re.search(r'^cupy = \["(.*)>=(.*)"\]', text, flags=re.MULTILINE)
        [cupy] = [each for each in host_matrix.LIBRARIES if each.project == extra[1]]
        self.assertEqual(cupy.oldest, f"{extra[2]}.0.0")

    def test_the_newest_release_is_read_for_any_python(self):
        library = Library("x", "a-b", "1.2.0", parts="a_b/.*")
        names = ["a_b-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl", "a_b-1.10.0-py3-none-any.whl",
                 "a_b-1.11.0rc1-py3-none-any.whl", "a_b-1.12.0-cp311-cp311-win_amd64.whl"]
        with (unittest.mock.patch.object(host_matrix.wheel_parts, "wheels", lambda _: {name: name for name in names}),
              unittest.mock.patch.object(host_matrix.wheel_parts, "extract") as extract):
            self.assertEqual(host_matrix.fetch(library, "", Path(), ""), "1.10.0")
            self.assertEqual(extract.call_args.args[0], names[1])
            self.assertEqual(host_matrix.fetch(library, "1.2.0", Path(), ""), "1.2.0")
            with self.assertRaisesRegex(Unavailable, "no wheel of a-b 1.3.0"):
                host_matrix.fetch(library, "1.3.0", Path(), "")


if __name__ == "__main__":
    unittest.main()
