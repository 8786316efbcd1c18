# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's own library with a pool in place of its CPU memory."""

import re
from pathlib import Path

import kit
import onnx_model

VERSION = "1.32.0"
RUNS = 200


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    library = next(
        kit.wheel("onnxruntime", VERSION, lambda name: "/libonnxruntime.so" in name).glob("**/libonnxruntime.so*")
    )
    # The wheel has no headers. This module has them, from an earlier release, as any program may.
    headers = kit.go_module("github.com/yalue/onnxruntime_go", "v1.27.0")
    # The name that programs ask for.
    named = work / "libonnxruntime.so.1"
    named.parent.mkdir(parents=True, exist_ok=True)
    named.unlink(missing_ok=True)
    named.symlink_to(library)
    model = work / "chain.onnx"
    model.write_bytes(onnx_model.model())
    options = ["-isystem", headers, named, f"-Wl,-rpath,{work}"]
    kit.compile_program(kit.ROOT / "tests/hosts/onnxruntime.cpp", work / "compare", *options, libraries=libraries)
    said = kit.run(work / "compare", model, str(RUNS))
    counts = list(map(int, re.findall(r"\d+", said)))
    if counts[0] != RUNS or counts[1] != counts[2]:
        raise kit.Failed(said)
    example = kit.ROOT / "examples/frameworks/onnxruntime/session.cpp"
    kit.compile_program(example, work / "session", *options, libraries=libraries)
    weights = int(re.search(r"(\d+) bytes", kit.run(work / "session", model, "Cpu"))[1])
    if weights < 4 * 4 * onnx_model.WIDTH**2:
        raise kit.Failed(f"the weights take only {weights} bytes of the pool")
    return [kit.Tried(".".join(VERSION.split(".")[:2]), f"ran on CPU ({RUNS} runs)")]
