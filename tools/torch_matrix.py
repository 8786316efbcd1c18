#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries the shim with PyTorch's releases, each minor one's newest, without a GPU and without installing them: their
headers and small libraries are fetched part by part (tools/wheel_parts.py), and kept in build/pytorch.

    torch_matrix.py [--newest N] [--page]    tries the newest N releases, or all from 2.6 on; prints a table
                                      --page writes it into docs/pytorch.md
    torch_matrix.py --prebuild FOLDER [--newest N]
                                      writes the shims for them, as a wheel carries them
    --libraries DIR                   where libgpupool.so and libgpupool_torch.so are, by default build/release

A cell says how far it came:
    compiled    against the release's headers
    linked      libc10, libc10_cuda and the CUDA runtime of the release export every symbol
    loaded      in a process with these three, it became PyTorch's allocator and answered there, on a CPU
    ran         PyTorch itself used it, on a GPU

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
from wheel_parts import Unavailable

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = ROOT / "bindings/python/src/gpupool/frameworks"
KEPT = ROOT / "build/pytorch"
PAGE = ROOT / "docs/pytorch.md"
OLDEST = (2, 6)
COMPILER = os.environ.get("CXX", "g++")
# On which release tests/gpu has run, and where.
RAN = {"2.11": "H200"}
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
    for version in sorted(found, key=_number):
        minors[_number(version)[:2]] = version
    return [minors[minor] for minor in sorted(minors, reverse=True) if minor >= OLDEST]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


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
    folder = KEPT / version
    if not folder.exists():
        part = KEPT / f"{version}.{os.getpid()}"
        try:
            _fetch(version, part)
            part.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return Release(version, folder)


def _fetch(version: str, folder: Path) -> None:
    def is_wanted(name: str) -> bool:
        is_header = name.startswith(("torch/include/c10/", "torch/include/torch/headeronly/"))
        return is_header or name.endswith(("csrc/api/include/torch/version.h", "dist-info/METADATA")) or name in (
            "torch/version.py", *LIBRARIES)

    wheel_parts.extract(_wheel("torch", version), is_wanted, folder)
    if not all((folder / name).exists() for name in LIBRARIES):
        raise Unavailable(f"PyTorch {version} has no CUDA for {platform.machine()}")
    needs = next(folder.glob("*.dist-info/METADATA")).read_text()
    separate = re.search(r"^Requires-Dist: (nvidia-cuda-runtime-cu\d+) ?\(?==([\d.]+)", needs, flags=re.MULTILINE)
    toolkit = re.search(r"^Requires-Dist: cuda-toolkit\[.*?\]==(\d+\.\d+)\.", needs, flags=re.MULTILINE)
    if separate is not None:
        url = _wheel(separate[1], separate[2])
    elif toolkit is not None:
        url = _wheel("nvidia-cuda-runtime", f"{toolkit[1]}.")
    else:
        raise Unavailable(f"PyTorch {version} does not say which CUDA runtime it needs")
    wheel_parts.extract(url, lambda name: "/include/" in name or "libcudart.so" in name, folder)


def _wheel(project: str, version: str) -> str:
    """The address of a project's wheel for this machine, of the newest release that starts with this."""
    start = re.escape(f"{project.replace('-', '_')}-{version}") + (r"\d+" if version.endswith(".") else "")
    pattern = re.compile(rf"{start}-\w+-\w+-manylinux[\w.]*{platform.machine()}\.whl")
    found = sorted(filter(pattern.fullmatch, wheel_parts.wheels(project)), key=lambda name: _number(name.split("-")[1]))
    if not found:
        raise Unavailable(f"there is no wheel of {project} {version}")
    return wheel_parts.wheels(project)[found[-1]]


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
    """How far it came, and what is wrong."""
    build = builder()
    folder.mkdir(parents=True, exist_ok=True)
    shim = folder / "shim.so"
    try:
        compile_shim(release, shim, libraries, "-O0", "-Wl,--no-undefined", str(release.cudart))
    except build.ShimError as error:
        return ("compiled" if "undefined reference" in str(error) else "failed"), str(error)
    wrong = load(release, shim, libraries)
    if wrong:
        return "linked", wrong
    return "loaded", build.unknown(release.torch / "include").words()


# ---- the table


def table(rows: list[tuple[Release, str]]) -> str:
    lines = ["| PyTorch | CUDA | the shim |", "|---|---|---|"]
    steps = ["compiled", "linked", "loaded"]
    for release, reached in rows:
        done = steps[: steps.index(reached) + 1] if reached in steps else ["does not compile"]
        where = RAN.get(release.version.rpartition(".")[0])
        words = [*done, f"ran ({where})"] if where else done
        lines.append(f"| {release.version} | {release.cuda_version} | {', '.join(words)} |")
    return "\n".join(lines) + "\n"


def write_page(text: str) -> None:
    marked = re.compile(r"(<!-- pytorch releases -->\n).*?(<!-- end of releases -->)", re.DOTALL)
    PAGE.write_text(marked.sub(lambda match: match[1] + text + match[2], PAGE.read_text()))


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
        newest = max(map(_number, re.findall(r"\(GLIBC_([\d.]+)\)", _symbols(shim))))
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
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--prebuild", type=Path)
    parser.add_argument("--libraries", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    work = KEPT / "tried"
    try:
        found = [fetch(version) for version in releases()[: arguments.newest]]
    except Unavailable as error:
        print(f"torch_matrix: PyTorch's releases cannot be had here: {error}; skipped")
        return 77
    if arguments.prebuild is not None:
        prebuild(found, arguments.prebuild, arguments.libraries, work)
        return 0
    rows = []
    for release in found:
        reached, wrong = attempt(release, arguments.libraries, work / release.version)
        print(f"{release.version}: {reached}{': ' * bool(wrong)}{wrong}", file=sys.stderr)
        rows.append((release, reached))
    text = table(rows)
    if arguments.page:
        write_page(text)
    print(text, end="")
    return 0 if all(reached == "loaded" for _, reached in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
