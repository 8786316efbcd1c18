#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries the shim with PyTorch's releases, each minor one's newest, without a GPU and without installing them: their
headers and small libraries are fetched part by part (tools/wheel_parts.py), and kept in build/pytorch.

    torch_matrix.py [--newest N] [--record]
                                      tries the newest N releases, or all from 2.6 on, and prints a table: how far each
                                      came. It fails if tests/hosts/hosts.json says otherwise; --record writes that, and
                                      the tables of the pages
    torch_matrix.py --prebuild FOLDER [--newest N]
                                      writes the shims for them, as a wheel carries them
    --libraries DIR                   where libgpupool.so and libgpupool_torch.so are, by default build/release

Ends with 0 if all came as far as `loaded`, and with 77 if nothing could be fetched.
"""

import argparse
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import wheel_parts
from host_record import SKIPPED, Trial, Tried
from wheel_parts import Unavailable, number

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = ROOT / "bindings/python/src/gpupool/frameworks"
KEPT = ROOT / "build/pytorch"
OLDEST = (2, 6)
STEPS = ("compiled", "linked", "loaded")
COMPILER = os.environ.get("CXX", "g++")
LIBRARIES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")


def builder():
    """The package's own module that compiles shims; it needs no other part of the package."""
    package = types.ModuleType("frameworks")
    package.__path__ = [str(FRAMEWORKS)]
    sys.modules.setdefault("frameworks", package)
    return importlib.import_module("frameworks._torch_build")


# ---- the releases


def releases() -> list[str]:
    """The newest of each minor release from 2.6 on, the newest first; those that are kept where no list can be had."""
    pattern = re.compile(rf"torch-(\d+\.\d+\.\d+)-cp3\d+-cp3\d+-manylinux\w*_{platform.machine()}\.whl")
    try:
        found = {match[1] for match in map(pattern.fullmatch, wheel_parts.wheels("torch")) if match}
    except Unavailable as error:
        found = {path.name for path in KEPT.glob("*") if re.fullmatch(r"\d+\.\d+\.\d+", path.name)}
        if not found:
            raise
        print(f"torch_matrix: {error}; what was fetched before is tried", file=sys.stderr)
    minors = {}
    for version in sorted(found, key=number):
        minors[number(version)[:2]] = version
    return [minors[minor] for minor in sorted(minors, reverse=True) if minor >= OLDEST]


@dataclass(frozen=True)
class Release:
    """What was fetched of one."""

    version: str
    folder: Path

    @property
    def torch(self) -> Path:
        return self.folder / "torch"

    @property
    def cuda(self) -> Path:
        """Where the CUDA runtime's headers are; its library is beside it."""
        return next(self.folder.glob("nvidia/*/include"))

    @property
    def cudart(self) -> Path:
        return next((self.cuda.parent / "lib").glob("libcudart.so.*"))

    @property
    def cuda_version(self) -> str:
        text = (self.torch / "version.py").read_text()
        return re.search(r"^cuda\b[^=]*= '([\d.]+)'", text, flags=re.MULTILINE)[1]

    @property
    def has_cxx11_abi(self) -> bool:
        return b"torchCheckFailEPKcS2_jRKNSt7__cxx11" in (self.torch / "lib/libc10.so").read_bytes()


def fetch(version: str) -> Release:
    """Raises Unavailable."""
    return Release(version, wheel_parts.kept(KEPT / version, lambda folder: _fetch(version, folder)))


def _fetch(version: str, folder: Path) -> None:
    def is_wanted(name: str) -> bool:
        is_header = name.startswith(("torch/include/c10/", "torch/include/torch/headeronly/"))
        return is_header or name.endswith(("csrc/api/include/torch/version.h", "dist-info/METADATA")) or name in (
            "torch/version.py", *LIBRARIES)

    wheel_parts.extract(wheel_parts.wheel("torch", version), is_wanted, folder)
    if not all((folder / name).exists() for name in LIBRARIES):
        raise Unavailable(f"PyTorch {version} has no CUDA for {platform.machine()}")
    needs = next(folder.glob("*.dist-info/METADATA")).read_text()
    separate = re.search(r"^Requires-Dist: (nvidia-cuda-runtime-cu\d+) ?\(?==([\d.]+)", needs, flags=re.MULTILINE)
    toolkit = re.search(r"^Requires-Dist: cuda-toolkit\[.*?\]==(\d+\.\d+)\.", needs, flags=re.MULTILINE)
    if separate is not None:
        url = wheel_parts.wheel(separate[1], separate[2])
    elif toolkit is not None:
        url = wheel_parts.wheel("nvidia-cuda-runtime", f"{toolkit[1]}.")
    else:
        raise Unavailable(f"PyTorch {version} does not say which CUDA runtime it needs")
    wheel_parts.extract(url, lambda name: "/include/" in name or "libcudart.so" in name, folder)


# ---- what is tried


def compile_shim(release: Release, path: Path, libraries: Path, *options: str) -> None:
    """Raises ShimError."""
    build = builder()
    headers = path.parent / "headers"
    (headers / "gpupool").mkdir(parents=True, exist_ok=True)
    for header in ("include/gpupool/gpupool.h", "src/frameworks/torch/include/gpupool/torch.h"):
        shutil.copy(ROOT / header, headers / "gpupool")
    build.compile_shim(
        build.PyTorch(release.version, release.torch, release.cuda, release.has_cxx11_abi),
        COMPILER, path, headers=headers,
        libraries=[library(libraries, "gpupool_torch"), library(libraries, "gpupool")], options=list(options))


def library(folder: Path, name: str) -> Path:
    return sorted(folder.glob(f"lib{name}.so*"))[0]


def load(release: Release, shim: Path, libraries: Path) -> str:
    """Loads the shim beside the release's libraries and asks it a few things. Returns what is wrong."""
    probe = shim.with_name("probe")
    paths = [release.torch / "lib", release.cudart.parent, libraries]
    built = subprocess.run(
        [COMPILER, "-std=c++20", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(release.has_cxx11_abi)}",
         "-isystem", release.torch / "include", "-isystem", release.cuda, "-isystem", FRAMEWORKS / "torch_shim/cuda",
         ROOT / "tests/torch_shim/probe.cpp", "-o", probe,
         f"-L{paths[0]}", "-lc10", "-lc10_cuda", release.cudart, "-ldl"],
        capture_output=True, text=True, check=False)
    if built.returncode != 0:
        return built.stderr
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, paths)), "GPUPOOL_LIBCUDA": "/nonexistent"}
    ran = subprocess.run([probe, shim], env=environment, capture_output=True, text=True, check=False, timeout=60)
    return "" if ran.returncode == 0 else f"it ended with {ran.returncode}: {ran.stderr}"


def attempt(release: Release, libraries: Path, folder: Path) -> tuple[str, str]:
    """The last step that it came to, "" for none, and what is wrong."""
    build = builder()
    folder.mkdir(parents=True, exist_ok=True)
    shim = folder / "shim.so"
    try:
        compile_shim(release, shim, libraries, "-O0", "-Wl,--no-undefined", str(release.cudart))
    except build.ShimError as error:
        return ("compiled" if "undefined reference" in str(error) else ""), str(error)
    wrong = load(release, shim, libraries)
    if wrong:
        return "linked", wrong
    return "loaded", build.unknown(release.torch / "include").words()


def attempt_all(trial: Trial, newest: int | None, libraries: Path) -> None:
    try:
        found = [fetch(version) for version in releases()[:newest]]
    except Unavailable as error:
        trial.skip("torch", f"PyTorch's releases cannot be had here: {error}")
        return
    for release in found:
        reached, wrong = attempt(release, libraries, KEPT / "tried" / release.version)
        if reached:
            how = ", ".join(STEPS[: STEPS.index(reached) + 1])
            trial.came("torch", Tried(release.version, how, release.cuda_version), wrong)
        if reached != "loaded":
            trial.fail("torch", f"{release.version}: {wrong}")


def prebuild(found: list[Release], folder: Path, libraries: Path, work: Path) -> None:
    """Writes each release's shim as a wheel has it: for any Linux on which that PyTorch runs. Their libraries are found
    where they are when it is loaded: PyTorch's are in the process, and ours in the folder above."""
    build = builder()
    folder.mkdir(parents=True, exist_ok=True)
    # libstdc++'s headers ask glibc 2.32 whether the process has one thread. Older ones do not know: it has more.
    answer = work / "one_thread.cpp"
    answer.parent.mkdir(parents=True, exist_ok=True)
    answer.write_text('extern "C" { extern char gpupool_torch_one_thread; char gpupool_torch_one_thread = 0; }\n')
    for release in found:
        name = build.name_of_prebuilt(release.version, release.cuda_version, release.torch / "include")
        shim = work / release.version / name
        shim.parent.mkdir(parents=True, exist_ok=True)
        compile_shim(release, shim, libraries, "-s", "-Wl,-rpath,$ORIGIN/..",
                     "-D__libc_single_threaded=gpupool_torch_one_thread", str(answer))
        newest = max(map(number, re.findall(r"\(GLIBC_([\d.]+)\)", _symbols(shim))))
        if newest > (2, 28):
            raise SystemExit(f"torch_matrix: {name} needs glibc {'.'.join(map(str, newest))}; wheels are for 2.28")
        wrong = load(release, shim, libraries)
        if wrong:
            raise SystemExit(f"torch_matrix: {name}: {wrong}")
        shutil.copy(shim, folder)
        print(folder / name)


def _symbols(path: Path) -> str:
    return subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--newest", type=int)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--prebuild", type=Path)
    parser.add_argument("--libraries", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    if arguments.prebuild is None:
        trial = Trial()
        attempt_all(trial, arguments.newest, arguments.libraries)
        return trial.end(is_recorded=arguments.record)
    try:
        found = [fetch(version) for version in releases()[: arguments.newest]]
    except Unavailable as error:
        print(f"torch_matrix: PyTorch's releases cannot be had here: {error}; skipped")
        return SKIPPED
    prebuild(found, arguments.prebuild, arguments.libraries, KEPT / "tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
