# SPDX-License-Identifier: Apache-2.0
"""The check of the bindings' coverage can fail, and fails for the right reasons."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_coverage

MISSING = "is neither offered (*.go, *.c, *.h) nor excused (bindings/go/excused.json)"


class Coverage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("docs/api.json", json.dumps({"functions": [{"name": "gpupool_a"}, {"name": "gpupool_b"}]}))
        self.write("bindings/go/pool.go", "C.gpupool_a(); C.gpupool_b()")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def test_all_is_offered(self):
        self.assertEqual(check_coverage.check(self.root), [])

    def test_a_function_is_missing(self):
        self.write("bindings/go/pool.go", "C.gpupool_a()  // gpupool_b2, xgpupool_b")
        self.assertEqual(check_coverage.check(self.root), [f"go: gpupool_b {MISSING}"])

    def test_a_derived_file_does_not_count(self):
        self.write("bindings/go/pool.go", "C.gpupool_a()")
        self.write("bindings/go/table.go", "// Written by tools/apigen.py\nC.gpupool_b()")
        self.assertEqual(len(check_coverage.check(self.root)), 1)

    def test_an_excuse_needs_a_reason_and_a_need(self):
        self.write("bindings/go/pool.go", "C.gpupool_a()")
        self.write("bindings/go/excused.json", json.dumps({"gpupool_b": "there is no need"}))
        self.assertEqual(check_coverage.check(self.root), [])
        self.write("bindings/go/excused.json", json.dumps({"gpupool_b": ""}))
        self.assertEqual(check_coverage.check(self.root), ["go: the excuse for gpupool_b gives no reason"])
        self.write("bindings/go/excused.json", json.dumps({"gpupool_b": "why", "gpupool_a": "why"}))
        self.assertEqual(check_coverage.check(self.root), ["go: the excuse for gpupool_a is stale"])

    def test_a_function_that_is_not_tried_on_a_short_host(self):
        self.write("tests/attack/host_memory_pools.cpp", "gpupool_a(); gpupool_b();")
        self.assertEqual(check_coverage.check(self.root), [])
        self.write("tests/attack/host_memory_pools.cpp", "gpupool_a();")
        self.write("tests/attack/other.cpp", "gpupool_b();")
        missing = "is neither offered (host_memory*) nor excused (tests/attack/excused.json)"
        self.assertEqual(check_coverage.check(self.root), [f"tests/attack: gpupool_b {missing}"])
        self.write("tests/attack/excused.json", json.dumps({"gpupool_b": "returns a constant"}))
        self.assertEqual(check_coverage.check(self.root), [])

    def test_what_a_configuration_takes(self):
        fields = [{"name": "grow_fn", "type": "gpupool_grow_fn_t"}, {"name": "size", "type": "uint64_t"}]
        contract = {"functions": [], "structs": [{"name": "gpupool_config_t", "fields": fields}]}
        self.write("docs/api.json", json.dumps(contract))
        missing = f"go: gpupool_config_t.grow_fn {MISSING}"
        self.assertEqual(check_coverage.check(self.root), [missing])
        self.write("bindings/go/pool.go", "config.grow_fn = f")
        self.assertEqual(check_coverage.check(self.root), [])

    def test_an_unknown_binding_is_seen(self):
        self.write("bindings/perl/pool.pm", "gpupool_a gpupool_b")
        self.assertEqual(len(check_coverage.check(self.root)), 1)


if __name__ == "__main__":
    unittest.main()
