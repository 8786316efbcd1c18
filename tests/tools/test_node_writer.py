# SPDX-License-Identifier: Apache-2.0
"""What apigen writes for Node: every struct as a plain object, every number by name, and types for both."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import apigen
from api.parser import parse
from api.writers.node import node_names, node_records, node_types

HEADER = (ROOT / apigen.HEADER).read_text(encoding="utf-8")
# The same with a status that there is not, and a field.
COLDER = HEADER.replace(
    "  GPUPOOL_STATUS_FORCE32", "  /* Brr,\n   * really. */\n  GPUPOOL_ERROR_TOO_COLD = 99,\n  GPUPOOL_STATUS_FORCE32"
).replace("  uint64_t metadata_bytes;", "  uint64_t metadata_bytes;\n  uint64_t degrees_below;")


class Node(unittest.TestCase):
    def setUp(self):
        self.api = parse(COLDER)

    def test_records(self):
        records = node_records(self.api)
        self.assertIn('  set_field(env, object, "degreesBelow", to_js(env, record.degrees_below));\n', records)
        self.assertIn('  set_field(env, object, "name", to_js(env, std::string(record.name)));\n', records)
        self.assertIn('  read_field(env, object, "maxChunkBytes", record.max_chunk_bytes);\n', records)
        self.assertNotIn("struct_size", records)
        self.assertNotIn("upstream", records)

    def test_names(self):
        names = node_names(self.api)
        self.assertIn("  TOO_COLD: 99,\n", names)
        self.assertIn("class TooColdError extends GpuPoolError {}\n", names)
        self.assertIn("class OverLimitError extends OutOfMemoryError {}\n", names)
        self.assertIn("  99: TooColdError,\n", names)
        self.assertNotIn("FORCE32", names)

    def test_types(self):
        types = node_types(self.api)
        self.assertIn("  /** Brr, really. */\n  readonly TOO_COLD: 99;\n", types)
        self.assertIn("  readonly degreesBelow: number;\n", types)
        self.assertIn("  readonly all: StatGroup;\n", types)
        self.assertIn("  readonly name: string;\n", types)
        self.assertIn("/** Brr, really. */\nexport declare class TooColdError extends GpuPoolError {}", types)


if __name__ == "__main__":
    unittest.main()
