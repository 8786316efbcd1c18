# SPDX-License-Identifier: Apache-2.0
"""What apigen writes for Go is formatted, and its layout test passes with this header's structs only."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import apigen
from api.parser import parse
from api.writers.go import go_constants, go_layout_test, go_structs

# What the hand-written files of the package declare.
_TYPES = """\
package gpupool

type Ptr uint64

type Stream uintptr

func nameOf[Enum ~int32](names map[Enum]string, kind string, value Enum) string { return names[value] + kind }

func namesOf[Bits ~uint64](names map[Bits]string, bits Bits) string { return names[bits] }
"""


def header():
    return (ROOT / apigen.HEADER).read_text(encoding="utf-8")


class Text(unittest.TestCase):
    def test_a_status_is_an_error_and_has_a_name(self):
        added = "  /* Brr. */\n  GPUPOOL_ERROR_TOO_COLD = 12,\n  GPUPOOL_STATUS_FORCE32"
        text = go_constants(parse(header().replace("  GPUPOOL_STATUS_FORCE32", added)))
        self.assertIn("\t// Brr.\n\tErrTooCold Status = 12\n", text)
        self.assertIn('"GPUPOOL_ERROR_TOO_COLD",\n', text)

    def test_numbers_that_are_enums(self):
        state = '\t// A gpupool_block_state_t.\n\tState BlockState `json:"state"`\n'
        self.assertIn(state, go_structs(parse(header())))

    def test_fields_have_the_names_of_c_in_json(self):
        text = go_structs(parse(header()))
        self.assertRegex(text, r'OOMHandlerCalls +uint64 +`json:"oom_handler_calls"`')
        self.assertRegex(text, r"structSize +uint32\n")

    def test_values_have_the_names_that_people_write(self):
        text = go_constants(parse(header()))
        self.assertRegex(text, r'ModeVMM: +"vmm",')
        self.assertRegex(text, r'FlagCaptureAware: +"capture_aware",')
        self.assertRegex(text, r'BlockPending: +"pending",')
        self.assertIn('func (value Kind) String() string { return nameOf(kindNames, "Kind", value) }', text)
        self.assertIn("func (value Capability) String() string { return namesOf(capabilityNames, value) }", text)


@unittest.skipUnless(shutil.which("go"), "there is no go")
class Go(unittest.TestCase):
    def test_what_is_written_is_formatted(self):
        api = parse(header())
        for write in (go_constants, go_structs, go_layout_test):
            with self.subTest(write.__name__):
                text = write(api)
                done = subprocess.run(["gofmt"], input=text, capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, text)

    def run_layout_test(self, structs_of, test_of):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {
                "go.mod": "module gpupool\n\ngo 1.24\n",
                "types.go": _TYPES,
                "constants.go": go_constants(parse(structs_of)),
                "structs.go": go_structs(parse(structs_of)),
                "layout_test.go": go_layout_test(parse(test_of)),
            }.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            done = subprocess.run(["go", "test", "."], cwd=folder, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_this_header(self):
        status, text = self.run_layout_test(header(), header())
        self.assertEqual(status, 0, text)

    def test_another_layout(self):
        moved = header().replace("  uint64_t limit_bytes;\n  uint64_t cached", "  uint64_t more;\n  uint64_t cached")
        larger = header().replace("uint64_t metadata_bytes;", "uint64_t metadata_bytes;\n  uint64_t more;")
        for other, words in ((moved, "LimitBytes"), (larger, "Stats: ")):
            self.assertNotEqual(other, header())
            status, text = self.run_layout_test(other, header())
            self.assertNotEqual(status, 0)
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
