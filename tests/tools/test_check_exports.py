# SPDX-License-Identifier: Apache-2.0
"""check_exports passes a library that keeps the contract, and refuses each way of breaking it."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_exports

GOOD_FLAGS = ("-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,noexecstack")
CONTRACT = {
    "version": "0.2.3",
    "functions": [{"name": "gpupool_a", "since": "0.1"}, {"name": "gpupool_b", "since": "0.2"}],
    "torch_functions": [{"name": "gpupool_torch_a", "since": "0.2"}],
}
GOOD_MAP = "GPUPOOL_0.1 { global: gpupool_a; local: *; }; GPUPOOL_0.2 { global: gpupool_b; } GPUPOOL_0.1;"
GOOD_CODE = "int gpupool_a(void) { return 0; }\nint gpupool_b(void) { return 1; }\nint stray(void) { return 2; }\n"


class Exports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, name, code, *flags):
        library = self.folder / name
        source = library.with_suffix(".c")
        source.write_text(code)
        command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", library, *flags]
        subprocess.run(command, check=True)
        return library

    def violations(self, code=GOOD_CODE, version_map=GOOD_MAP, flags=GOOD_FLAGS, soname="libgpupool.so.0.2"):
        script = self.folder / "x.map"
        script.write_text(version_map)
        named = [f"-Wl,-soname,{soname}"] if soname else []
        library = self.compile("libx.so", code, f"-Wl,--version-script={script}", *named, *flags)
        return check_exports.violations(str(library), CONTRACT)

    def test_good(self):
        self.assertEqual(self.violations(), [])

    def test_missing_function(self):
        found = self.violations(code=GOOD_CODE.replace("gpupool_b", "gpupool_c"))
        self.assertEqual(found, ["gpupool_b@@GPUPOOL_0.2 is missing or has another version"])

    def test_function_in_another_node(self):
        found = self.violations(version_map="GPUPOOL_0.1 { global: gpupool_a; gpupool_b; local: *; };")
        self.assertEqual(len(found), 2)

    def test_stray_export(self):
        found = self.violations(version_map=GOOD_MAP.replace("gpupool_a;", "gpupool_a; stray;"))
        self.assertEqual(found, ["stray@@GPUPOOL_0.1 is exported and is not in the contract"])

    def test_exported_object(self):
        found = self.violations(code=GOOD_CODE.replace("int gpupool_b(void) { return 1; }", "int gpupool_b;"))
        self.assertEqual(found, ["gpupool_b@@GPUPOOL_0.2 is not a function"])

    def test_unique_symbol(self):
        unique = '__asm__(".type gpupool_b, @gnu_unique_object");\nint gpupool_b = 1;'
        found = self.violations(code=GOOD_CODE.replace("int gpupool_b(void) { return 1; }", unique))
        self.assertIn("gpupool_b@@GPUPOOL_0.2 is unique across the process", found)

    def test_soname(self):
        for soname, words in (("libgpupool.so.0", "libgpupool.so.0"), ("libx.so.0.2", "libx.so.0.2"), ("", "missing")):
            self.assertEqual(self.violations(soname=soname), [f"its soname is {words}, not libgpupool.so.0.2"])
        self.assertEqual(check_exports.soname_of("1.4.0"), "libgpupool.so.1")

    def test_executable_stack(self):
        found = self.violations(flags=(*GOOD_FLAGS[:2], "-Wl,-z,execstack"))
        self.assertEqual(found, ["the stack is executable"])

    def test_unloadable_and_late_binding(self):
        self.assertIn("unload", self.violations(flags=GOOD_FLAGS[1:])[0])
        self.assertIn("late", self.violations(flags=("-Wl,-z,nodelete", "-Wl,-z,lazy"))[0])

    def test_stray_library(self):
        self.compile("libother.so", "int other(void) { return 0; }\n", "-Wl,-soname,libother.so.1")
        found = self.violations(flags=(*GOOD_FLAGS, "-Wl,--no-as-needed", f"-L{self.folder}", "-lother"))
        self.assertEqual(found, ["libother.so.1 is needed"])

    def test_s25_a_library_that_needs_cudas_runtime(self):
        """A child of a program that preloads such a library does not start where the runtime is another one."""
        self.compile("libcudart.so", "int cudart(void) { return 0; }\n", "-Wl,-soname,libcudart.so.13")
        found = self.violations(flags=(*GOOD_FLAGS, "-Wl,--no-as-needed", f"-L{self.folder}", "-lcudart"))
        self.assertEqual(found, ["libcudart.so.13 is needed"])

    def test_the_library_for_pytorch(self):
        self.compile("libgpupool.so", "int gpupool_a(void) { return 0; }\n", "-Wl,-soname,libgpupool.so.0.2")
        script = self.folder / "torch.map"
        script.write_text("GPUPOOL_0.2 { global: gpupool_torch_a; local: *; };")
        code = "int gpupool_a(void);\nint gpupool_torch_a(void) { return gpupool_a(); }\n"
        flags = (f"-Wl,--version-script={script}", "-Wl,-soname,libgpupool_torch.so.0.2", *GOOD_FLAGS)
        library = str(self.compile("libtorch.so", code, *flags, f"-L{self.folder}", "-lgpupool"))
        self.assertEqual(check_exports.violations(library, CONTRACT, "torch"), [])
        found = check_exports.violations(library, CONTRACT)
        self.assertIn("libgpupool.so.0.2 is needed", found)
        self.assertIn("gpupool_torch_a@@GPUPOOL_0.2 is exported and is not in the contract", found)

    def test_static_tls(self):
        variable = '__attribute__((tls_model("initial-exec"))) __thread int n;\n'
        code = variable + GOOD_CODE.replace("return 0", "return n")
        self.assertIn("thread-local", self.violations(code=code)[0])

    def test_the_command_fails_too(self):
        contract = self.folder / "api.json"
        contract.write_text(json.dumps({"version": "0.2.3", "functions": []}))
        library = self.compile("libx.so", GOOD_CODE, *GOOD_FLAGS)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(check_exports.main([str(library), str(contract)]), 1)
        self.assertIn("stray is exported", output.getvalue())


if __name__ == "__main__":
    unittest.main()
