# SPDX-License-Identifier: Apache-2.0
"""What apigen writes for Rust compiles against the committed bindings, and against no others."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import apigen
from api.model import Define
from api.parser import parse
from api.writers.rust import error_kind_rs, layout_rs

SYS = ROOT / "bindings/rust/gpupool-sys"


def header():
    return (ROOT / apigen.HEADER).read_text(encoding="utf-8")


class Text(unittest.TestCase):
    def test_every_status_has_a_kind(self):
        added = "  GPUPOOL_ERROR_TOO_COLD = 12,\n  GPUPOOL_STATUS_FORCE32"
        text = error_kind_rs(parse(header().replace("  GPUPOOL_STATUS_FORCE32", f"  /* Brr. */\n{added}")))
        self.assertIn("    /// Brr.\n    TooCold,\n", text)
        self.assertIn("sys::GPUPOOL_ERROR_TOO_COLD => ErrorKind::TooCold,", text)

    def test_types(self):
        text = layout_rs(parse(header()))
        self.assertIn("field!(gpupool_error_t, message: [c_char; 1024], at 16);", text)
        self.assertIn('const _: unsafe extern "C" fn(*const gpupool_config_t, *mut *mut gpupool_t)', text)


class Comments(unittest.TestCase):
    """What docs.rs shows: bindgen copies the header's comments, and nothing compiles differently if they are old."""

    def old(self, text):
        """The declarations of this header whose comments the committed bindings do not have."""
        literals = re.findall(r'#\[doc = ("(?:\\.|[^"\\])*")\]', (SYS / "src/bindings.rs").read_text(encoding="utf-8"))
        written = {" ".join(json.loads(literal).split()) for literal in literals}
        items = [item for item in parse(text).items if type(item) is not Define]  # bindgen leaves those of macros out
        each = [one for item in items for one in (item, *getattr(item, "fields", ()), *getattr(item, "values", ()))]
        return [one.name for one in each if one.doc and " ".join(one.doc.split()) not in written]

    def test_are_the_header_s(self):
        self.assertEqual(self.old(header()), [], "run cargo build -p gpupool-sys --features generate in bindings/rust")

    def test_of_another_header(self):
        changes = {
            "gpupool_free": "/* Frees a block.",
            "driver_code": "/* The driver's own number, or 0.",
            "GPUPOOL_MODE_VMM": "/* Chunks, mapped where",
        }
        for name, old in changes.items():
            with self.subTest(name):
                self.assertIn(name, self.old(header().replace(old, old + " Now")))


@unittest.skipUnless(shutil.which("rustc"), "there is no rustc")
class Compiling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copy(SYS / "tests/layout/main.rs", self.folder)

    def compile(self, *arguments):
        command = ["rustc", "--edition=2021", "--emit=metadata", f"--out-dir={self.folder}", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def prove(self, text):
        """The proof of this header's text, against the committed bindings."""
        (self.folder / "generated.rs").write_text(layout_rs(parse(text)), encoding="utf-8")
        self.assertEqual(self.compile("--crate-type=rlib", "--crate-name=gpupool_sys", SYS / "src/lib.rs")[0], 0)
        extern = f"--extern=gpupool_sys={self.folder / 'libgpupool_sys.rmeta'}"
        return self.compile("--test", extern, self.folder / "main.rs")

    def test_this_header(self):
        status, errors = self.prove(header())
        self.assertEqual(status, 0, errors)

    def test_other_headers(self):
        changes = {
            "an offset": ("uint64_t hits;\n  uint64_t misses;", "uint64_t misses;\n  uint64_t hits;"),
            "a size": ("char message[1024];", "char message[1032];"),
            "a type": ("int32_t driver_code;", "uint32_t driver_code;"),
            "a number": ("GPUPOOL_MODE_VMM = 1,", "GPUPOOL_MODE_VMM = 5,"),
            "a define": ("GPUPOOL_STREAM_UNKNOWN 0xffffffffffffffff", "GPUPOOL_STREAM_UNKNOWN 0xfffffffffffffffe"),
            "a callback": ("(*gpupool_log_fn_t)(void* user, int32_t", "(*gpupool_log_fn_t)(void* user, uint32_t"),
            "a signature": ("gpupool_sim_advance(int32_t device,", "gpupool_sim_advance(uint32_t device,"),
            "a new function": ("gpupool_sim_advance(", "gpupool_sim_retreat("),
        }
        for what, (old, new) in changes.items():
            with self.subTest(what):
                self.assertIn(old, header())
                status, errors = self.prove(header().replace(old, new))
                self.assertEqual(status, 1)
                self.assertIn("generated.rs", errors)


if __name__ == "__main__":
    unittest.main()
