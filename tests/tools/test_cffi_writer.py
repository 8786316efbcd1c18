# SPDX-License-Identifier: Apache-2.0
"""What apigen writes for Python follows the header: new fields, numbers and statuses arrive, and it is Python."""

import ast
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import apigen
from api.parser import parse
from api.writers.cffi_py import cffi_cdef, python_enums, python_errors, python_structs


def written(*changes):
    """All four files for the header with some words replaced."""
    text = (ROOT / apigen.HEADER).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    api = parse(text)
    return {write.__name__: write(api) for write in (cffi_cdef, python_enums, python_structs, python_errors)}


class Writing(unittest.TestCase):
    def test_it_is_python(self):
        files = written()
        for name in ("python_enums", "python_structs", "python_errors"):
            ast.parse(files[name], feature_version=(3, 10))

    def test_declarations(self):
        cdef = written()["cffi_cdef"]
        self.assertIn("gpupool_status_t gpupool_destroy(gpupool_t* pool);", cdef)
        self.assertIn("  char message[1024];", cdef)
        self.assertNotIn("GPUPOOL_API", cdef)

    def test_a_new_status(self):
        new = "  /* Brr. */\n  GPUPOOL_ERROR_TOO_COLD = 12,\n  GPUPOOL_STATUS_FORCE32"
        files = written(("  GPUPOOL_STATUS_FORCE32", new))
        self.assertIn('    TOO_COLD = 12\n    """Brr."""\n', files["python_enums"])
        self.assertIn('class TooColdError(Error, status=Status.TOO_COLD):\n    """Brr."""\n', files["python_errors"])
        self.assertIn("  GPUPOOL_ERROR_TOO_COLD = 12,", files["cffi_cdef"])

    def test_a_new_field(self):
        old = "  uint64_t metadata_bytes;"
        files = written((old, f"{old}\n  /* A gpupool_mode_t. */\n  int32_t mode;\n  uint32_t reserved0;"))
        self.assertIn('    mode: Mode\n    """A gpupool_mode_t."""\n', files["python_structs"])
        self.assertIn("            mode=Mode(c.mode),\n", files["python_structs"])
        self.assertIn("from ._enums import Backend, BlockState, Capability, Mode", files["python_structs"])
        self.assertNotIn("reserved0", files["python_structs"])
        self.assertIn("  int32_t mode;\n  uint32_t reserved0;\n", files["cffi_cdef"])

    def test_fields_that_begin_like_reserved_ones(self):
        self.assertIn("    reserved_bytes: Stat\n", written()["python_structs"])


if __name__ == "__main__":
    unittest.main()
