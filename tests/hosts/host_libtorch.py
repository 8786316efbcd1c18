# SPDX-License-Identifier: Apache-2.0
"""libtorch without Python: the newest release's own libc10 and libc10_cuda, of which only what is needed is fetched, in
programs in C++, Rust and Go that make gpupool its allocator."""

import hashlib
import importlib
import os
import shutil
import subprocess
from pathlib import Path

import kit
import torch_matrix

EXAMPLES = kit.ROOT / "examples/frameworks/libtorch"


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    release = torch_matrix.fetch(torch_matrix.releases()[0])
    work.mkdir(parents=True, exist_ok=True)
    shim = work / "libgpupool_libtorch.so"
    _build(release, libraries, work, shim)
    commands = {
        "C++": [kit.COMPILER, "-std=c++20", "-w", EXAMPLES / "main.cpp", "-isystem", release.torch / "include",
                "-isystem", release.cuda, "-isystem", torch_matrix.FRAMEWORKS / "torch_shim/cuda", shim,
                f"-L{release.torch / 'lib'}", "-lc10", "-lc10_cuda", release.cudart],
        "Rust": ["rustc", EXAMPLES / "main.rs", "-L", work, "-l", "gpupool_libtorch",
                 *("-C", "link-arg=-Wl,--allow-shlib-undefined")],
        "Go": ["go", "build"],
    }  # fmt: skip
    paths = {"LD_LIBRARY_PATH": ":".join(map(str, (work, release.torch / "lib", release.cudart.parent, libraries)))}
    tried = []
    for language, command in commands.items():
        if shutil.which(str(command[0])) is None:
            print(f"libtorch: {command[0]} is not here, so {language} is skipped")
            continue
        program = work / f"from_{language.lower()}"
        arguments = [*command, "-o", program] + [EXAMPLES / "main.go"] * (language == "Go")
        flags = {"CGO_LDFLAGS": f"-L{work} -lgpupool_libtorch -Wl,--allow-shlib-undefined", "GO111MODULE": "off"}
        built = subprocess.run(arguments, env=os.environ | flags, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise kit.Failed(f"{language}: {built.stderr}")
        if kit.run(program, **paths) != "gpupool\n":
            raise kit.Failed(f"{language}: another allocator")
        tried.append(kit.Tried(f"{'.'.join(release.version.split('.')[:2])} in {language}", "loaded"))
    return tried


def _build(release: torch_matrix.Release, libraries: Path, work: Path, shim: Path) -> None:
    build = torch_matrix.builder()
    key = hashlib.sha256(str(release.version).encode())
    for path in sorted(
        [*torch_matrix.FRAMEWORKS.glob("torch_shim/*.*pp"), *kit.ROOT.glob("include/gpupool/gpupool.h")]
    ):
        key.update(path.read_bytes())
    made = shim.with_suffix(".key")
    if shim.exists() and made.exists() and made.read_text() == key.hexdigest():
        return  # compiling it takes ten seconds
    libtorch = importlib.import_module("frameworks._libtorch")
    headers = work / "headers"
    (headers / "gpupool").mkdir(parents=True, exist_ok=True)
    for header in ("include/gpupool/gpupool.h", "src/frameworks/torch/include/gpupool/torch.h"):
        shutil.copy(kit.ROOT / header, headers / "gpupool")
    try:
        libtorch.build(
            release.torch,
            shim,
            prebuilt=work,
            compiler=kit.COMPILER,
            cuda=release.cuda,
            headers=headers,
            libraries=[torch_matrix.library(libraries, name) for name in ("gpupool_torch", "gpupool")],
        )
    except build.ShimError as error:
        raise kit.Failed(str(error)) from error
    made.write_text(key.hexdigest())
