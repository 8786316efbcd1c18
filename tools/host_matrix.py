#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries gpupool with the oldest and the newest release of each library that it has an adapter for, without a GPU.
PyTorch's releases have tools/torch_matrix.py.

    host_matrix.py [--python PYTHON] [--record] [NAME...]
                        prints a table: how far each came (host_record.STEPS); NAME is a row of tests/hosts/hosts.json,
                        by default all
    --python PYTHON     one that has gpupool, by default the one that runs this; libraries are installed for it into a
                        folder for the time of the test
    --record            writes what the releases came to into hosts.json, and the tables of the pages; without, another
                        outcome than it says is a failure

tests/hosts/releases has a program for each library, which says how far it came, and why no further.

Ends with 0 if none failed, and with 77 if one of them could not be fetched.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import wheel_parts
from host_record import Trial, Tried
from wheel_parts import Unavailable

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests/hosts/releases"
HAS = "import gpupool"
WAYS = ("interface checked", "imported", "ran on CPU")


class Failed(Exception):
    """A release does not work with gpupool."""


@dataclass(frozen=True)
class Library:
    """What is tried of one."""

    host: str
    """Its row in hosts.json."""
    project: str
    """As pip knows it."""
    oldest: str
    """The oldest release that is supported."""
    program: str = ""
    parts: str = ""
    """Which files are read out of the wheel, which is not installed: its newest release need not be for this Python."""
    is_named: bool = False
    """Whether its row has several projects."""

    def label(self, version: str) -> str:
        short = ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])
        if version.startswith("0."):
            short = short.removesuffix(".0")
        return f"{self.project.partition('[')[0]} {short}" if self.is_named else short


LIBRARIES = (
    Library("cupy", "cupy-cuda12x", "14.0.0"),
    Library("numba", "numba", "0.57.0", is_named=True),
    Library("numba", "numba-cuda[cu12]", "0.15.0", is_named=True),
    Library("cuda.core", "cuda-core[cu12]", "0.3.0", "cuda_core"),
    Library("triton", "triton", "3.3.0"),
    Library("rmm", "rmm-cu12", "25.12.0"),
    Library("warp", "warp-lang", "1.15.0"),
    Library("jax", "jax", "0.4.30"),
    Library("jax", "jax", "0.4.30", "jax_files", r"jax/_src/xla_bridge\.py"),
    Library("jax", "jaxlib", "0.4.30", "jax_files", r"jaxlib/xla_client\.py"),
    Library("onnxruntime", "onnxruntime-gpu", "1.16.0", parts=r"onnxruntime/capi/onnxruntime_inference_collection\.py"),
    Library("vllm", "vllm", "0.23.0", parts=r"vllm/(device_allocator|compilation|v1/worker)/[^/]*\.py", is_named=True),
    Library("vllm", "sglang", "0.4.9", parts=r"sglang/srt/(utils/)?torch_memory_saver_adapter\.py", is_named=True),
    Library("vllm", "torch-memory-saver", "0.0.9", parts=r"torch_memory_saver/.*\.py", is_named=True),
)


def fetch(library: Library, version: str, folder: Path, python: str) -> str:
    """Puts a release into the folder, "": the newest; returns which one it is. Raises Unavailable."""
    if library.parts:
        return _read(library, version, folder)
    requirement = f"{library.project}=={version}" if version else library.project
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-cache-dir", "--only-binary=:all:"]
    command = [*pip, "--target", folder, requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip: {requirement} took more than {error.timeout} s") from error
    if done.returncode != 0:
        raise Unavailable(f"pip: {done.stderr.strip().splitlines()[-1]}")
    name = library.project.partition("[")[0].replace("-", "_")
    return next(folder.glob(f"{name}-*.dist-info")).name.removeprefix(f"{name}-").removesuffix(".dist-info")


def _read(library: Library, version: str, folder: Path) -> str:
    stem = library.project.replace("-", "_")
    found = {}
    for name, url in sorted(wheel_parts.wheels(library.project).items()):
        match = re.match(rf"{stem}-(\d+(?:\.\d+)+(?:\.post\d+)?)-.*(?:any|linux\w*x86_64)\.whl", name)
        if match and version in ("", match[1]):
            found[match[1]] = url
    if not found:
        raise Unavailable(f"there is no wheel of {library.project} {version}")
    newest = max(found, key=lambda version: tuple(map(int, re.findall(r"\d+", version))))
    wheel_parts.extract(found[newest], lambda name: re.fullmatch(library.parts, name) is not None, folder)
    return newest


def program_of(library: Library) -> Path:
    named = PROGRAMS / f"release_{library.program or library.project.partition('[')[0].replace('-', '_')}.py"
    return named if named.exists() else PROGRAMS / f"release_{library.host}.py"


def attempt(library: Library, folder: Path, python: str) -> tuple[str, str]:
    """How far it came, and its own words why no further. Raises Failed."""
    # No GPU, even if there is one; and CUDA's libraries, which are looked for where Python's packages are installed.
    environment = os.environ | {"GPUPOOL_BACKEND": "sim", "CUDA_VISIBLE_DEVICES": "",
                                "LD_LIBRARY_PATH": ":".join(map(str, folder.glob("nvidia/*/lib")))}
    command = [python, "-B", program_of(library), folder]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"it took more than {error.timeout} s") from error
    if done.returncode != 0 or not done.stdout.strip():
        raise Failed(done.stderr.strip()[-2000:] or f"it ended with {done.returncode}")
    how, _, words = done.stdout.splitlines()[-1].partition("\t")
    return how, words


HOSTS = tuple(dict.fromkeys(library.host for library in LIBRARIES))


def attempt_all(trial: Trial, names: Iterable[str], python: str) -> None:
    has_gpupool = subprocess.run([python, "-c", HAS], capture_output=True, check=False).returncode == 0
    for host in names:
        if not has_gpupool:
            trial.skip(host, f"{python} has no gpupool")
            continue
        ways: dict[str, tuple[str, str]] = {}
        is_whole = True
        for library in LIBRARIES:
            for version in (library.oldest, "") if library.host == host else ():
                name = f"{library.project} {version or 'newest'}"
                try:
                    with tempfile.TemporaryDirectory() as folder:
                        label = library.label(fetch(library, version, Path(folder), python))
                        came = attempt(library, Path(folder), python)
                    ways[label] = max(came, ways.get(label, came), key=lambda each: WAYS.index(each[0]))
                except Unavailable as error:
                    trial.skip(host, f"{name}: {error}")
                    is_whole = False
                except Failed as error:
                    trial.fail(host, f"{name}: {error}")
        # A label of several projects has come as far as all of them say.
        for label, (how, words) in ways.items() if is_whole else ():
            trial.came(host, Tried(label, how), words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if unknown := set(options.names) - set(HOSTS):
        parser.error(f"there is no {', '.join(sorted(unknown))} here")
    trial = Trial(replaced=WAYS)
    attempt_all(trial, options.names or HOSTS, options.python)
    return trial.end(is_recorded=options.record)


if __name__ == "__main__":
    sys.exit(main())
