# SPDX-License-Identifier: Apache-2.0
"""apigen reads what the header may say, refuses everything else with its line, and notices stale files."""

import contextlib
import io
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import apigen
from api.model import Enum, Function, Struct
from api.parser import LintErrors, parse
from api.writers import OUTPUTS
from api.writers.export_map import export_map

GOOD = """\
#define GPUPOOL_VERSION_MAJOR 0
#define GPUPOOL_VERSION_MINOR 2
#define GPUPOOL_VERSION_PATCH 0

/* ---- types ---- */

/* A pool. */
typedef struct gpupool_t gpupool_t;

/* Levels. */
typedef enum gpupool_level_t {
  GPUPOOL_LEVEL_LOW = 1,
  /* Not
   * low. */
  GPUPOOL_LEVEL_HIGH = 2,
  GPUPOOL_LEVEL_FORCE32 = 0x7fffffff
} gpupool_level_t;

/* A pair. */
typedef struct gpupool_pair_t {
  uint32_t struct_size;
  int32_t level;
  const char* names[2];
} gpupool_pair_t;

/* Called back. */
typedef void (*gpupool_fn_t)(void* user, gpupool_pair_t* pair);

/* ---- calls ---- */

/* Does it. */
GPUPOOL_API gpupool_level_t gpupool_do(gpupool_t* pool,
                                       gpupool_fn_t fn);

/* Undoes it. Since 0.2. */
GPUPOOL_API void gpupool_undo(void);
"""


def parse_region(region):
    return parse(f"/* gpupool-api-begin, down to gpupool-api-end. */\n{region}/* gpupool-api-end */\n")


class Reading(unittest.TestCase):
    def test_model(self):
        api = parse_region(GOOD)
        self.assertEqual(api.version, "0.2.0")
        self.assertEqual([title for title, _ in api.groups()], ["", "types", "calls"])
        pair = api.of(Struct)[0]
        self.assertEqual((pair.size, [member.offset for member in pair.fields]), (24, [0, 4, 8]))
        self.assertEqual(api.of(Enum)[0].values[1].doc, "Not\nlow.")
        do = api.of(Function)[0]
        self.assertEqual(str(do.returns), "gpupool_level_t")
        self.assertEqual([str(p.type) for p in do.parameters], ["gpupool_t*", "gpupool_fn_t"])

    def test_every_version_has_a_node(self):
        text = export_map(parse_region(GOOD))
        self.assertIn("GPUPOOL_0.1 {\n  global:\n    gpupool_do;\n  local:\n    *;\n};", text)
        self.assertIn("GPUPOOL_0.2 {\n  global:\n    gpupool_undo;\n} GPUPOOL_0.1;", text)

    def test_a_comment_belongs_to_the_next_line_only(self):
        with self.assertRaisesRegex(LintErrors, "gpupool_do.*no comment"):
            parse_region("/* Far away. */\n\nGPUPOOL_API void gpupool_do(void);\n")


class Refusing(unittest.TestCase):
    def refuses(self, region, reason, line=2):
        with self.assertRaises(LintErrors) as caught:
            parse_region(region)
        self.assertRegex(caught.exception.messages[0], rf"^gpupool\.h:{line}: .*{reason}")

    def test_bad_declarations(self):
        cases = {
            "#define GPUPOOL_MAX(a, b) a": "#define GPUPOOL_NAME integer",
            "#define GPUPOOL_BIT (1u << 3)": "#define GPUPOOL_NAME integer",
            "#define OTHER 1": "#define GPUPOOL_NAME integer",
            "#ifdef GPUPOOL_X": "#define GPUPOOL_NAME integer",
            "static inline int32_t gpupool_x(void) { return 0; }": "'static' starts nothing",
            "extern int32_t gpupool_x;": "'extern' starts nothing",
            "// A C++ comment.": "'// A C\\+\\+ comment.' starts nothing",
            "int gpupool_x(void);": "'int' starts nothing",
        }
        for region, reason in cases.items():
            with self.subTest(region):
                self.refuses(region + "\n", reason)

    def test_bad_declarations_below_a_comment(self):
        cases = {
            "GPUPOOL_API long gpupool_x(void);": "'long' is not a type",
            "GPUPOOL_API bool gpupool_x(void);": "'bool' is not a type",
            "GPUPOOL_API gpupool_t* gpupool_x(void);": "'gpupool_t' is not a type",
            "GPUPOOL_API void gpupool_x(const char* format, ...);": "expected a type before '...'",
            "GPUPOOL_API void gpupool_x(int32_t);": "expected the name of a parameter",
            "GPUPOOL_API void gpupool_x();": "expected a type",
            "GPUPOOL_API void gpupool_x(void) __attribute__((noreturn));": "expected ';'",
            "GPUPOOL_API void other(void);": "must start with gpupool_",
            "typedef uint64_t gpupool_ptr;": "must end in _t",
            "typedef struct gpupool_a_t gpupool_b_t;": "must be called 'gpupool_a_t'",
            "typedef union gpupool_a_t { int32_t a; } gpupool_a_t;": "'union' is not a type",
            "typedef struct gpupool_a_t { uint32_t a : 3; } gpupool_a_t;": "expected ';' before ':'",
            "typedef struct gpupool_a_t { uint32_t a; uint64_t b; } gpupool_a_t;": "4 bytes of padding before 'b'",
            "typedef struct gpupool_a_t { uint64_t a; uint32_t b; } gpupool_a_t;": "4 bytes of padding at the end",
            "typedef enum gpupool_e_t { GPUPOOL_A = 1 } gpupool_e_t;": "_FORCE32",
            "typedef enum gpupool_e_t { GPUPOOL_A, GPUPOOL_B } gpupool_e_t;": "expected '='",
            "typedef enum gpupool_e_t { GPUPOOL_A = 1 << 2 } gpupool_e_t;": "expected '}'",
            "typedef enum gpupool_e_t : int32_t { GPUPOOL_A = 1 } gpupool_e_t;": "expected '{'",
        }
        for region, reason in cases.items():
            with self.subTest(region):
                self.refuses(f"/* Words. */\n{region}\n", reason, line=3)

    def test_each_bad_declaration_is_told(self):
        with self.assertRaises(LintErrors) as caught:
            parse_region(GOOD + "int x(void) { return 0; }\n#pragma once\nlong y;\n")
        self.assertEqual(len(caught.exception.messages), 3)

    def test_declared_twice(self):
        self.refuses("#define GPUPOOL_A 1\n#define GPUPOOL_A 2\n", "declared twice", line=3)

    def test_versions(self):
        self.refuses("#define GPUPOOL_VERSION 7\n" + GOOD, "must be 200")
        self.refuses(GOOD.replace("Since 0.2.", "Since 0.3."), "newer than", line=37)

    def test_markers(self):
        with self.assertRaisesRegex(LintErrors, "must both be there"):
            parse("/* gpupool-api-begin */")


class Checking(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        header = self.root / apigen.HEADER
        header.parent.mkdir(parents=True)
        shutil.copy(ROOT / apigen.HEADER, header)
        self.header = header

    def run_apigen(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = apigen.main(["--root", str(self.root), *arguments])
        return status, output.getvalue()

    def test_check_names_each_stale_file_and_writes_nothing(self):
        status, output = self.run_apigen("--check")
        self.assertEqual(status, 1)
        for name in OUTPUTS:
            self.assertIn(name, output)
            self.assertFalse((self.root / name).exists())

        self.assertEqual(self.run_apigen()[0], 0)
        self.assertEqual(self.run_apigen("--check"), (0, ""))
        contract = json.loads((self.root / "docs/api.json").read_text())
        self.assertIn("gpupool_malloc", [function["name"] for function in contract["functions"]])

        stale = self.root / "src/abi/gpupool.map"
        stale.write_text(stale.read_text().replace("gpupool_malloc;", ""))
        status, output = self.run_apigen("--check")
        self.assertEqual((status, output.count("stale")), (1, 1))
        self.assertIn(str(stale), output)

    def test_a_function_cannot_join_what_has_been_released(self):
        released = self.root / apigen.RELEASED / "0.1.0/gpupool.map"
        released.parent.mkdir(parents=True)
        shutil.copy(ROOT / apigen.RELEASED / "0.1.0/gpupool.map", released)
        self.assertEqual(self.run_apigen()[0], 0)

        text = self.header.read_text()
        new = "/* Does more. */\nGPUPOOL_API gpupool_status_t gpupool_more(gpupool_t* pool);\n\n"
        end = "/* gpupool-api-end */"
        self.header.write_text(text.replace(end, new + end))
        status, output = self.run_apigen()
        self.assertEqual(status, 1)
        self.assertRegex(output, r"gpupool\.h:\d+: gpupool_more is not in 0\.1\.0, .*: write `Since \d+\.\d+\.` in its")
        self.assertNotIn("gpupool_more", (self.root / "src/abi/gpupool.map").read_text())
        self.header.write_text(text.replace(end, new.replace("more.", "more. Since 0.2.") + end))
        self.assertEqual(self.run_apigen()[0], 0)

    def test_a_bad_header_writes_nothing(self):
        end = "/* gpupool-api-end */"
        self.header.write_text(self.header.read_text().replace(end, f"union x;\n{end}"))
        status, output = self.run_apigen()
        self.assertEqual(status, 1)
        self.assertRegex(output, r"gpupool\.h:\d+: 'union' starts nothing")
        self.assertFalse((self.root / "docs").exists())


if __name__ == "__main__":
    unittest.main()
