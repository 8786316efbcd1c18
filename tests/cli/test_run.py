#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs under gpupool run: what is set for them, and the pool that the stand-in driver then has."""

import os
import pathlib
import platform
import shutil
import statistics
import struct
import subprocess
import sys
import time
import unittest

from command import COMMAND, MIB, CommandTest

FAKE = os.environ["FAKE_CUDA"]
LIMITS = (
    "CUPY_GPU_MEMORY_LIMIT", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", "CUDA_INJECTION64_PATH",
    "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH",
)  # fmt: skip

# A program that uses cudaMallocAsync: how much it gets, and what its pool keeps when all is freed.
PROGRAM = """
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
context, default, pool, kept = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
time.sleep(float(sys.argv[2]))      # the first context takes longer
blocks = []
while True:
    address = ctypes.c_uint64()
    if len(blocks) == 64 or cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(64 << 20), None) != 0:
        break
    blocks.append(address)
for address in blocks:
    assert cuda.cuMemFreeAsync(address, None) == 0
assert cuda.cuStreamSynchronize(None) == 0
assert cuda.cuDeviceGetMemPool(ctypes.byref(pool), 0) == 0
assert cuda.cuMemPoolGetAttribute(pool, 5, ctypes.byref(kept)) == 0
print(len(blocks) * 64, kept.value >> 20)
"""


class RunTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in os.environ.items() if name not in LIMITS}
        self.environment |= {
            "GPUPOOL_LIBCUDA": FAKE, "GPUPOOL_LIBNVML": os.environ["FAKE_NVML"], "FAKE_NVML_ID": "GPU-1",
        }  # fmt: skip

    def run_it(self, *words, **environment):
        done = subprocess.run(
            [COMMAND, "run", *map(str, words)],
            capture_output=True, text=True, timeout=60, check=False, env=self.environment | environment,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def printed(self, *words, **environment):
        code, out, err = self.run_it("--print", *words, "--", "true", **environment)
        self.assertEqual(code, 0, err)
        return dict(line.split("=", 1) for line in out.splitlines())

    def pool(self, *options, **environment):
        code, out, err = self.run_it(*options, "--", sys.executable, "-c", PROGRAM, FAKE, "0.3", **environment)
        self.assertEqual(code, 0, err)
        return tuple(map(int, out.split()))

    def test_the_drivers_pool_is_capped_and_keeps(self):
        self.assertEqual(self.pool("--cap", "256MiB"), (256, 0))
        self.assertEqual(self.pool("--cap", "256MiB", "--keep"), (256, 256))
        self.assertEqual(self.pool("--keep"), (4096, 4096))

    def test_a_driver_that_refuses_is_said_and_the_program_runs(self):
        code, out, err = self.run_it(
            "--cap", "256MiB", "--", sys.executable, "-c", PROGRAM, FAKE, "0.3", FAKE_CUDA_FAIL="cuMemPoolCreate:0=1"
        )
        self.assertEqual((code, out), (0, "4096 0\n"))
        self.assertIn("gpupool run: device 0 has no pool with these settings: the driver says 1\n", err)

    def test_what_it_keeps_follows_a_group(self):
        """The group's limit is 512 MiB, of which a member has 320."""
        share = {"GPUPOOL_SHARE_DIR": str(self.folder), "GPUPOOL_SHARE_LIMIT": "512MiB", "GPUPOOL_BACKEND": "cuda"}
        member = subprocess.Popen(
            [
                sys.executable, "-c", MEMBER, os.environ["GPUPOOL_LIBRARY"],
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=self.environment | share | {"GPUPOOL_SHARE": "team"},
        )  # fmt: skip
        for each in (member.stdout.close, member.stdin.close, member.wait, member.kill):
            self.addCleanup(each)
        self.assertEqual(member.stdout.readline(), "ready\n")
        self.assertEqual(self.pool("--keep", "--share", "team", **share), (4096, 192))

    def test_settings_of_frameworks(self):
        found = self.printed("--cap", "2GiB")
        self.assertEqual(found["CUPY_GPU_MEMORY_LIMIT"], str(2 << 30))
        self.assertEqual(found["XLA_PYTHON_CLIENT_MEM_FRACTION"], "0.2500")
        self.assertEqual(found["XLA_PYTHON_CLIENT_PREALLOCATE"], "false")
        self.assertEqual(found["TF_FORCE_GPU_ALLOW_GROWTH"], "true")
        self.assertEqual(found["GPUPOOL_RUN_CAP"], str(2 << 30))
        self.assertNotIn("CUPY_GPU_MEMORY_LIMIT", self.printed("--keep"))

    def test_a_smaller_limit_of_the_user_stays(self):
        for name, value, stays in (
            ("CUPY_GPU_MEMORY_LIMIT", "1000", True), ("CUPY_GPU_MEMORY_LIMIT", str(3 << 30), False),
            ("CUPY_GPU_MEMORY_LIMIT", "20%", True), ("CUPY_GPU_MEMORY_LIMIT", "30%", False),
            ("XLA_CLIENT_MEM_FRACTION", "0.1", True), ("XLA_CLIENT_MEM_FRACTION", "0.9", False),
            ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".2", True), ("XLA_PYTHON_CLIENT_MEM_FRACTION", "rubbish", False),
            ("TF_FORCE_GPU_ALLOW_GROWTH", "false", True),
        ):  # fmt: skip
            with self.subTest(name, value=value):
                found = self.printed("--cap", "2GiB", **{name: value})
                self.assertEqual(name not in found, stays, found)
                if name == "XLA_CLIENT_MEM_FRACTION":
                    self.assertNotIn("XLA_PYTHON_CLIENT_MEM_FRACTION", found)  # JAX refuses both

    def test_options_of_servers(self):
        for given, got in (
            ("vllm serve model", "serve model --gpu-memory-utilization 0.2500"),
            ("vllm serve model --gpu-memory-utilization 0.9", "serve model --gpu-memory-utilization 0.2500"),
            ("vllm serve model --gpu-memory-utilization=0.1", "serve model --gpu-memory-utilization=0.1"),
            ("vllm -m sglang.launch_server", "-m sglang.launch_server --mem-fraction-static 0.2500"),
            ("vllm bench", "bench"),
        ):
            with self.subTest(given):
                program = self.write("vllm", "#!/bin/sh\necho $@\n")
                program.chmod(0o755)
                words = given.split()
                self.assertEqual(self.run_it("--cap", "2GiB", "--", program, *words[1:])[:2], (0, got + "\n"))

    def test_without_nvml_a_share_is_not_known(self):
        code, out, err = self.run_it("--cap", "2GiB", "--print", "--", "true", GPUPOOL_LIBNVML="/no/such/file")
        self.assertEqual(code, 0)
        self.assertNotIn("FRACTION", out)
        self.assertIn("NVML does not say of how much", err)

    def test_bad_input(self):
        for words, code, part in (
            (["--cap", "2GiB"], 2, "run takes a program, after --"), (["--", "true"], 2, "--cap, --keep or --hooks"),
            (["--cap", "1KiB", "--", "true"], 2, "less than a pool can have"),
            (["--cap", "much", "--", "true"], 2, "--cap: "),
            (["--share", "team", "--cap", "1GiB", "--", "true"], 2, ""),
            (["--keep", "--", "/no/such/program"], 127, "cannot be run: No such file"),
            (["--keep", "--", "/etc/passwd"], 127, "cannot be run: Permission denied"),
        ):  # fmt: skip
            with self.subTest(words):
                done = self.run_it(*words)
                self.assertEqual((done[0], done[1]), (code, ""))
                self.assertIn(part, done[2])
        taken = self.run_it("--keep", "--", "true", CUDA_INJECTION64_PATH="/opt/profiler.so")
        self.assertEqual((taken[0], taken[1]), (2, ""))
        self.assertIn("CUDA_INJECTION64_PATH is /opt/profiler.so", taken[2])

    def test_programs_out_of_reach(self):
        self.assertEqual(self.run_it("--keep", "--", "sh", "-c", "exit 7")[0], 7)
        source = self.write("static.c", "int main(void) { return 0; }\n")
        static = self.folder / "static"
        subprocess.run(["cc", "-static", source, "-o", static], check=True)
        code, _, err = self.run_it("--keep", "--", static)
        self.assertEqual(code, 0)
        self.assertIn("is linked statically, so that it cannot load a CUDA driver", err)
        binary = bytearray(static.read_bytes())
        binary[18:20] = b"\x16\x00"  # s390
        foreign = self.write("foreign", bytes(binary))
        foreign.chmod(0o755)
        code, _, err = self.run_it("--keep", "--", foreign)
        self.assertEqual(code, 127)
        self.assertIn("is for another kind of processor", err)
        self.assertIn("cannot be run: Exec format error", err)

    def test_programs_with_other_rights(self):
        program = self.folder / "other"
        told = "runs with other rights than its user's"
        for user, group, mode, is_other in ((0, 0, 0o6755, False), (65534, 0, 0o4755, True), (0, 65534, 0o2755, True),
                                            (65534, 65534, 0o755, False), (0, 65534, 0o2745, False)):  # fmt: skip
            with self.subTest(user=user, group=group, mode=oct(mode)):
                shutil.copy(shutil.which("true"), program)
                try:
                    os.chown(program, os.getuid() + user, os.getgid() + group)
                except PermissionError:
                    self.skipTest("only root can give a file away")
                program.chmod(mode)
                code, _, err = self.run_it("--keep", "--", program)
                self.assertEqual(code, 0, err)
                self.assertEqual(told in err, is_other, err)

    def test_programs_of_32_bits(self):
        """They run, and where they have a loader it says that it leaves our library out."""
        if platform.machine() != "x86_64":
            self.skipTest("these programs are for x86")
        source = self.write("seven.s", ".globl _start\n_start: movl $1, %eax\nmovl $7, %ebx\nint $0x80\n")
        subprocess.run(["as", "--32", source, "-o", self.folder / "seven.o"], check=True)
        loader = pathlib.Path("/lib/ld-linux.so.2")
        forms = [("static", [])]
        if loader.exists():
            forms.append(("dynamic", ["-pie", "-dynamic-linker", loader]))
        for form, words in forms:
            program = self.folder / form
            subprocess.run(["ld", "-m", "elf_i386", *words, self.folder / "seven.o", "-o", program], check=True)
            try:
                if subprocess.run([program], check=False).returncode != 7:
                    self.skipTest("programs of 32 bits do not run here")
            except OSError:
                self.skipTest("this kernel runs no programs of 32 bits")
            for option in ("--keep", "--hooks"):
                with self.subTest(form, option=option):
                    code, _, err = self.run_it(option, "--", program)
                    self.assertEqual(code, 7, err)
                    self.assertIn(f"{program} is of 32 bits, so that no library of 64 bits can be loaded into it", err)
                    is_told = "libgpupool_audit.so' from LD_AUDIT cannot be" in err or "wrong ELF class" in err
                    self.assertEqual(is_told, (form, option) == ("dynamic", "--hooks"), err)

    def test_programs_with_capabilities(self):
        """Of their files; for another user, since root has them anyway."""
        if os.geteuid() != 0:
            self.skipTest("only root can give capabilities to a file, and become another user")
        nobody = 65534
        program = self.folder / "capable"
        shutil.copy(shutil.which("true"), program)
        self.folder.chmod(0o755)

        def told():
            done = subprocess.run(
                [COMMAND, "run", "--keep", "--", program], capture_output=True, text=True, check=False,
                user=nobody, group=nobody, extra_groups=[], env=self.environment,
            )  # fmt: skip
            return done.returncode, done.stderr

        try:
            self.assertEqual(told()[0], 0)
            net_bind = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)  # of revision 2, effective
            os.setxattr(program, "security.capability", net_bind)
        except OSError as error:
            self.skipTest(f"no file has capabilities here, or another user cannot run the command: {error}")
        self.assertNotIn("other rights", self.run_it("--keep", "--", program)[2])
        code, err = told()
        self.assertEqual(code, 0, err)
        self.assertIn(f"{program} runs with other rights than its user's, so that settings may not reach it", err)

    def test_a_library_that_others_can_change_is_refused(self):
        build = pathlib.Path(COMMAND).parent
        outer = self.folder / "outer"
        copy = outer / "middle/copy"
        copy.mkdir(parents=True)
        for name in ("gpupool", "libgpupool_inject.so", "libgpupool_audit.so"):
            shutil.copy(build / name, copy / name)
        shutil.copy(os.environ["GPUPOOL_LIBRARY"], copy / pathlib.Path(os.environ["GPUPOOL_LIBRARY"]).resolve().name)

        def refused(option="--keep"):
            done = subprocess.run(
                [copy / "gpupool", "run", option, "--", "true"], capture_output=True, text=True, check=False,
                env=self.environment | {"LD_PRELOAD": str(next(copy.glob("libgpupool.so*")))},
            )  # fmt: skip
            return done.returncode, done.stderr

        self.assertEqual(refused()[0], 0)
        for option, name in (("--keep", "libgpupool_inject.so"), ("--hooks", "libgpupool_audit.so")):
            for path, mode in ((copy / name, 0o666), (copy, 0o777), (outer / "middle", 0o777), (outer, 0o777)):
                with self.subTest(option, path=path.name):
                    before = path.stat().st_mode
                    path.chmod(mode)
                    code, err = refused(option)
                    path.chmod(before)
                    self.assertEqual(code, 2)
                    self.assertIn(f"{copy / name} is not loaded: {path} can be changed by others", err)
                    self.assertEqual(refused(option)[0], 0)
        outer.chmod(0o1777)  # where each has what is their own, as in /tmp
        self.assertEqual(refused()[0], 0)
        outer.chmod(0o755)
        if os.geteuid() == 0:
            for path, owner, group, mode, is_open in (
                (outer, 65534, 0, 0o755, False), (outer, 0, 65534, 0o775, True), (outer, 0, 0, 0o775, False),
                (copy, 65534, 0, 0o755, True), (copy, 0, 0, 0o755, False),
            ):  # fmt: skip
                with self.subTest(path.name, owner=owner, group=group, mode=oct(mode)):
                    os.chown(path, owner, group)
                    path.chmod(mode)
                    self.assertEqual(refused()[0], 2 if is_open else 0)

    def test_a_start_takes_50_ms_more_at_most(self):
        def seconds(*words):
            start = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True, env=self.environment)
            return time.perf_counter() - start

        plain = statistics.median(seconds("true") for _ in range(15))
        under = statistics.median(seconds(COMMAND, "run", "--keep", "--cap", "1GiB", "--", "true") for _ in range(15))
        print(f"a start under gpupool run takes {(under - plain) * 1000:.1f} ms more", file=sys.stderr)
        self.assertLess(under - plain, 0.05)


MEMBER = f"""
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])

pool, address = ctypes.c_void_p(), ctypes.c_uint64()
assert lib.gpupool_default_pool(0, ctypes.byref(pool)) == 0
assert lib.gpupool_malloc(pool, ctypes.c_uint64({320 * MIB}), ctypes.c_uint64(0), ctypes.byref(address)) == 0
print("ready", flush=True)
sys.stdin.read()
"""

if __name__ == "__main__":
    unittest.main()
