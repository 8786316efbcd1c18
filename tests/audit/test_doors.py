#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each way by which a program reaches the driver's functions, and those that are left alone."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from audited import COMMAND, DRIVER, AuditTest

CUDART = pathlib.Path(os.environ["GPUPOOL_CUDART"])
RUNTIMES = pathlib.Path(os.environ["GPUPOOL_CUDA_RUNTIMES"])
CAP = "GPUPOOL_RUN_CAP"

# Loads a library of this name that calls the driver, and writes what it got.
CALLER = """
#include <dlfcn.h>
#include <stdint.h>
int take(void) {
  unsigned long long address = 0;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  return ((int (*)(unsigned long long*, unsigned long))(uintptr_t)dlsym(driver, "cuMemAlloc_v2"))(&address, 4 << 20);
}
"""


LINKED = """
int cuMemAlloc_v2(unsigned long long*, unsigned long);
int take(void) {
  unsigned long long address = 0;
  return cuMemAlloc_v2(&address, 4 << 20);
}
"""


class DoorsTest(AuditTest):
    def codes(self, program, door, *more, **environment):
        """Under a cap of 250 bytes, which is less than the command takes, so set for the library itself."""
        script = f'{CAP}=250 exec "$0" "$@"'
        code, out, err = self.hooked([], "sh", "-c", script, program, door, *more, **environment)
        self.assertEqual(code, 0, err)
        return out.strip()

    def test_doors_that_open_the_driver(self):
        program = self.compile("doors.c")
        for door in (
            "dlsym", "default", "next", "dlvsym", "cuGetProcAddress", "cuGetProcAddress_v2:3020",
            "cuGetProcAddress_v2:11080", "cuGetProcAddress_v2:12000", "cuGetProcAddress_v2:13000", "itself", "dlmopen",
        ):  # fmt: skip
            with self.subTest(door):
                self.assertEqual(self.codes(program, door), "0 0 2")
                self.assertEqual(self.start(program, door)[1], "0 0 0\n")  # without the hooks
        for path in (DRIVER, "libcuda.so"):
            with self.subTest(path):
                shutil.copy(DRIVER, self.folder / "libcuda.so")
                self.environment["LD_LIBRARY_PATH"] = f"{self.folder}:{DRIVER.parent}"
                self.assertEqual(self.codes(program, "dlsym", path), "0 0 2")

    def test_a_function_that_is_not_exported(self):
        self.assertEqual(self.codes(self.compile("doors.c"), "itself", DRIVER_UNEXPORTED="1"), "0 0 2")

    def test_a_child_before_the_driver_is_begun(self):
        self.assertEqual(self.codes(self.compile("doors.c"), "dlsym", "libcuda.so.1", "fork"), "0 0 2")

    def test_doors_that_link_to_the_driver(self):
        for number, options in enumerate((
            ["-Wl,-z,lazy"], ["-Wl,-z,now"], ["-fno-plt", "-Wl,-z,now"], ["-no-pie", "-fno-pie", "-Wl,-z,lazy"],
            ["-no-pie", "-fno-pie", "-Wl,-z,now"],
        )):  # fmt: skip
            program = self.compile("doors.c", "-DLINKED", *options, DRIVER, name=f"linked{number}")
            for door in ("linked", "data"):
                with self.subTest(door, options=options):
                    self.assertEqual(self.codes(program, door), "0 0 2")

    def test_paths_that_the_program_has_itself(self):
        """RPATH and RUNPATH, of which the first comes before LD_LIBRARY_PATH, and nothing in the environment."""
        for tags in ("--disable-new-dtags", "--enable-new-dtags"):
            words = [f"-Wl,-rpath,{DRIVER.parent}", f"-Wl,{tags}"]
            linked = self.compile("doors.c", "-DLINKED", *words, DRIVER, name="linked" + tags)
            opening = self.compile("doors.c", *words, name="opening" + tags)
            for program, door in ((linked, "linked"), (linked, "data"), (linked, "next"), (opening, "dlsym")):
                with self.subTest(door, tags=tags):
                    self.assertEqual(self.codes(program, door, LD_LIBRARY_PATH=""), "0 0 2")

    def test_a_later_version_with_other_arguments_passes(self):
        program = """
found, future = c_void_p(), c_void_p()
real = ctypes.CFUNCTYPE(c_int, c_uint, c_void_p, c_size_t)
assert cuda.cuGetProcAddress_v2(b"cuMemAlloc", byref(found), 14000, c_ulonglong(0), None) == 0
address = c_ulonglong()
print(real(found.value)(7, byref(address), 64 * MIB), cuda.driver_used(0) // MIB, sep=",")
"""
        self.assertEqual(self.result(program, "16MiB")[0], (0, 64))

    def test_callers_that_patch_or_inspect_are_left_alone(self):
        source = self.folder / "caller.c"
        source.write_text(CALLER, encoding="utf-8")
        for name, code in (
            ("libucm_cuda.so.0", 0), ("libcupti.so.13", 0), ("libsanitizer-collection.so", 0), ("libnccl.so.2", 0),
            ("libmine.so", 2),
        ):  # fmt: skip
            with self.subTest(name):
                library = self.folder / name
                subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
                self.assertEqual(self.result(f"print(ctypes.CDLL('{library}').take())", "2MiB")[0], code)

    def test_libraries_that_see_their_own_symbols_first(self):
        """With RTLD_DEEPBIND, which gets past functions that are preloaded."""
        for name, text, words in (("libasks.so", CALLER, ["-ldl"]), ("liblinks.so", LINKED, [DRIVER])):
            with self.subTest(name):
                source = self.folder / "deep.c"
                source.write_text(text, encoding="utf-8")
                library = self.folder / name
                subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, *words], check=True)
                program = f"print(ctypes.CDLL('{library}', mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND | os.RTLD_NOW).take())"
                self.assertEqual(self.result(program, "2MiB")[0], 2)

    def test_cudas_own_runtimes(self):
        """Of 13.0, beside cuda.h, and those that tools/setup.sh fetches: 11.8, 12.9 and the newest."""
        folders = [folder for folder in (CUDART, *sorted(RUNTIMES.glob("*"))) if any(folder.glob("libcudart.so.*"))]
        for folder in folders:
            with self.subTest(folder.name):
                self.a_runtime_has_the_hooks(folder)
        if len(folders) < 4:
            self.skipTest(f"of four runtimes of CUDA there are {len(folders)}: tools/setup.sh fetches them")

    def a_runtime_has_the_hooks(self, folder):
        """Both of its forms ask the driver for each function by an address that they have asked for as well. The
        stand-in has too few functions to go further."""
        source = self.folder / "runtime.c"
        source.write_text(RUNTIME, encoding="utf-8")
        archive = folder / "libcudart_static.a"
        for form, words in (("dynamic", [next(folder.glob("libcudart.so.*"))]),
                            ("static", [archive, "-lrt", "-lpthread"])):  # fmt: skip
            if form == "static" and not archive.exists():
                continue  # CUDA 11's package has none
            with self.subTest(form):
                program = self.folder / form
                subprocess.run(["cc", source, "-o", program, *words, "-ldl", f"-Wl,-rpath,{folder}"], check=True)
                plain = tuple(map(int, self.start(program)[1].split()))
                self.assertGreater(plain[0], 300)
                self.assertEqual(plain[1], 0)
                code, out, err = self.hooked(["--cap", "8MiB"], program)
                self.assertEqual(code, 0, err)
                of_all, of_hooks = map(int, out.split())
                print(f"runtime {folder.name}, {form}: {plain[0]} requests, under the hooks {of_all}", file=sys.stderr)
                self.assertEqual(of_all, of_hooks)
                self.assertGreaterEqual(of_hooks, plain[0])

    def test_what_cannot_be_hooked_is_said(self):
        source = self.folder / "static.c"
        source.write_text("int main(void) { return 7; }\n", encoding="utf-8")
        static = self.folder / "static"
        subprocess.run(["cc", "-static", source, "-o", static], check=True)
        code, _, err = self.hooked([], static)
        self.assertEqual(code, 7)
        self.assertIn("is linked statically, so that it cannot load a CUDA driver", err)

    @unittest.skipIf(os.geteuid() != 0, "only root can give a file to another user")
    def test_a_program_that_runs_as_another_user_is_said(self):
        program = self.folder / "another"
        shutil.copy("/bin/true", program)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        code, _, err = self.hooked([], program)
        self.assertEqual(code, 0)
        self.assertIn("runs with other rights than its user's, so that settings may not reach it", err)

    def test_an_old_c_library_is_said(self):
        source = self.folder / "old.c"
        source.write_text('const char* gnu_get_libc_version(void) { return "2.31"; }\n', encoding="utf-8")
        old = self.folder / "libold.so"
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", old], check=True)
        code, out, err = self.hooked(["--cap", "1GiB"], "true", LD_PRELOAD=str(old))
        self.assertEqual((code, out), (2, ""))
        offer = "--hooks: they need glibc 2.35, and this is 2.31; --cap without them sets what frameworks have"
        self.assertIn(offer, err)
        code, out, err = self.start(
            COMMAND, "run", "--cap", "1GiB", "--", "printenv", "CUPY_GPU_MEMORY_LIMIT", LD_PRELOAD=str(old)
        )
        self.assertEqual((code, out), (0, f"{1 << 30}\n"), err)

    def test_the_library_needs_nothing_of_the_programs(self):
        """No libraries but C's, no thread-local storage, no constructors but the compiler's own."""
        library = pathlib.Path(COMMAND).resolve().parent / "libgpupool_audit.so"
        words = ["readelf", "--wide", "--dynamic", "--segments", library]
        shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.assertLessEqual(set(re.findall(r"Shared library: \[(\w+)", shown)), {"libc", "libdl", "ld"})
        self.assertNotRegex(shown, r"\n +TLS ")
        self.assertEqual(re.findall(r"INIT_ARRAYSZ\) +(\d+)", shown), ["8"])

    def test_settings(self):
        def printed(*words, **environment):
            code, out, err = self.start(COMMAND, "run", *words, "--print", "--", "true", **environment)
            self.assertEqual(code, 0, err)
            return dict(line.split("=", 1) for line in out.splitlines())

        library = str(pathlib.Path(COMMAND).resolve().parent / "libgpupool_audit.so")
        found = printed("--hooks", "--cap", "1GiB")
        self.assertEqual((found["LD_AUDIT"], found[CAP]), (library, str(1 << 30)))
        # A share of the card would be taken of the cap, as that is all that the program sees.
        self.assertIn("XLA_PYTHON_CLIENT_MEM_FRACTION", printed("--cap", "1GiB"))
        self.assertNotIn("XLA_PYTHON_CLIENT_MEM_FRACTION", found)
        self.assertNotIn("CUDA_INJECTION64_PATH", found)  # left to profilers
        self.assertIn("CUDA_INJECTION64_PATH", printed("--hooks", "--keep"))
        self.assertNotIn("LD_AUDIT", printed("--cap", "1GiB"))
        self.assertEqual(printed("--hooks", LD_AUDIT="/other.so")["LD_AUDIT"], f"{library}:/other.so")
        self.assertEqual(printed("--hooks", LD_AUDIT=library)["LD_AUDIT"], library)
        self.assertEqual(printed("--hooks", LD_AUDIT=f"/other.so:{library}")["LD_AUDIT"], f"{library}:/other.so")

    def test_the_smaller_cap_of_two_holds(self):
        def cap(*words):
            code, out, err = self.hooked(words[:2], COMMAND, "run", *words[2:], "--", "printenv", CAP)
            self.assertEqual(code, 0, err)
            return int(out), err

        found, err = cap("--cap", "1GiB", "--hooks", "--cap", "8GiB")
        self.assertEqual(found, 1 << 30)
        self.assertIn(f"{CAP}={1 << 30} is smaller than --cap, and stays", err)
        self.assertEqual(cap("--cap", "8GiB", "--cap", "1GiB")[0], 1 << 30)
        self.assertEqual(cap("--cap", "1GiB", "--hooks")[0], 1 << 30)

    def test_a_path_that_the_loader_cannot_have(self):
        own = pathlib.Path(COMMAND).resolve().parent
        libraries = self.folder / "libraries"  # beside which there is none of the loader's
        libraries.mkdir()
        for each in own.glob("libgpupool.so*"):
            shutil.copy(each, libraries)
        for name in ("a:b", "a$LIB"):
            with self.subTest(name):
                folder = self.folder / name
                folder.mkdir()
                shutil.copy(own / "gpupool", folder)
                shutil.copy(own / "libgpupool_audit.so", folder)
                words = [folder / "gpupool", "run", "--hooks", "--", "true"]
                code, out, err = self.start(*words, LD_LIBRARY_PATH=str(libraries))
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn("--hooks: the loader finds no library with : or $ in its path, as", err)

    def test_a_program_without_cuda(self):
        self.assertEqual(self.hooked([], sys.executable, "-c", "print(7)")[:2], (0, "7\n"))


RUNTIME = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
int cudaMalloc(void**, unsigned long);
int main(void) {
  void* address = 0;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);  /* the runtime, once it has failed, closes it */
  (void)cudaMalloc(&address, 6 << 20);
  uint64_t (*count)(const char*) = (uint64_t(*)(const char*))(uintptr_t)dlsym(driver, "driver_requests_of");
  printf("%lu %lu\\n", (unsigned long)count(""), (unsigned long)count("libgpupool_audit.so"));
  return 0;
}
"""

if __name__ == "__main__":
    unittest.main()
