# SPDX-License-Identifier: Apache-2.0
"""What apigen writes for SWIG: a name for everything in the header, and an exception for each status."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import apigen
from api.model import Enum, Function, Struct
from api.parser import parse
from api.writers.swig import csharp_exceptions, java_exceptions, swig_names
from api.writers.swig_comments import declarations, swig_comments

HEADER = (ROOT / apigen.HEADER).read_text(encoding="utf-8")
# The same with a status that there is not.
COLDER = HEADER.replace(
    "  GPUPOOL_STATUS_FORCE32", "  /* Brr,\n   * really. */\n  GPUPOOL_ERROR_TOO_COLD = 99,\n  GPUPOOL_STATUS_FORCE32"
)


class Comments(unittest.TestCase):
    def test_fields_have_the_headers_text(self):
        header = HEADER.replace("/* Number of the device, from 0. */", '/* A gpupool_mode_t if <3, "so". */')
        comments = swig_comments(parse(header))
        java = '%javamethodmodifiers gpupool_config_t::device %{/** A Mode if &lt;3, "so". */\n  public%};'
        self.assertIn(java, comments)
        self.assertIn(java.replace("java", "cs", 1).replace("/**", "/// <summary>").replace(" */", "</summary>")
                      .replace("<summary> ", "<summary>"), comments)

    def test_hidden_fields_have_none(self):
        self.assertNotIn("gpupool_config_t::struct_size", swig_comments(parse(HEADER)))

    def test_objects_have_their_own_text(self):
        found = list(declarations("""
/// Sums.
class Sum {
#ifndef SWIG
  /// For C++.
  Sum(int);
#endif
  /// Adds one,
  /// or more.
  void add(int number = 1) const {
  }
  /// Adds text
  void add(const std::string& text,
           int base) {
  }
  int silent();
};
/// Alone.
inline int alone() {
}
%extend gpupool_x_t {
  /// Of x.
  void of_x() { f(); }
}
"""))
        self.assertEqual(found, [
            ("binding::Sum", None, "", "Sums."),
            ("binding::Sum", "add", "", "Adds one, or more."),
            ("binding::Sum", "add", "(const std::string& text, int base)", "Adds text"),
            ("binding", "alone", "", "Alone."),
            ("gpupool_x_t", "of_x", "", "Of x."),
        ])


class Names(unittest.TestCase):
    def test_everything_has_a_name_or_is_hidden(self):
        api = parse(HEADER)
        words = set(re.findall(r"\w+", swig_names(api)))
        declared = {item.name for kind in (Enum, Function, Struct) for item in api.of(kind)}
        declared |= {value.name for enum in api.of(Enum) for value in enum.values}
        self.assertEqual(declared - words, set())

    def test_a_constant_in_each_language(self):
        names = swig_names(parse(COLDER))
        self.assertIn("%gpupool_constant(GPUPOOL_ERROR_TOO_COLD, ERROR_TOO_COLD, TOO_COLD, TooCold)\n", names)
        self.assertIn("%gpupool_constant(GPUPOOL_MODE_VMM, MODE_VMM, VMM, Vmm)\n", names)
        self.assertIn("%ignore GPUPOOL_STATUS_FORCE32;\n", names)

    def test_what_the_library_fills_is_read_only(self):
        names = swig_names(parse(HEADER))
        self.assertIn("%immutable gpupool_stats_t::limit_bytes;\n", names)
        self.assertNotIn("gpupool_config_t::limit_bytes", names)
        self.assertIn("%ignore gpupool_config_t::struct_size;\n", names)


class Exceptions(unittest.TestCase):
    def test_java(self):
        text = java_exceptions(parse(COLDER))
        self.assertIn("case TOO_COLD:\n        return new TooColdException(status, driverCode, message);", text)
        self.assertIn("/** Brr, really. */\n  public static class TooColdException extends GpuPoolException {", text)
        self.assertIn("class OverLimitException extends OutOfMemoryException {", text)

    def test_csharp(self):
        text = csharp_exceptions(parse(COLDER))
        self.assertIn("case Status.TooCold:\n        return new GpuPoolTooColdException(status,", text)
        self.assertIn("<summary>Brr, really.</summary>\npublic class GpuPoolTooColdException", text)
        self.assertIn("class GpuPoolOverLimitException : GpuPoolOutOfMemoryException {", text)


if __name__ == "__main__":
    unittest.main()
