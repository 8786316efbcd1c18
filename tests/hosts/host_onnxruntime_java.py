# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's own library, used from Java, with a pool in place of its CPU memory."""

import re
import shutil
from pathlib import Path

import kit
import onnx_model

VERSION = "1.26.0"
EXAMPLE = kit.ROOT / "examples/frameworks/onnxruntime_java"


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    jar = kit.maven("com.microsoft.onnxruntime", "onnxruntime", VERSION)
    headers = kit.go_module("github.com/yalue/onnxruntime_go", "v1.27.0")
    work.mkdir(parents=True, exist_ok=True)
    kit.ask("unzip", "-qjo", str(jar), "ai/onnxruntime/native/linux-x64/libonnxruntime.so", "-d", str(work))
    # The name by which the program asks for it, and finds the one that Java has loaded.
    shutil.copy(work / "libonnxruntime.so", work / "libonnxruntime.so.1")
    library = work / "libsession.so"
    options = ["-shared", "-fPIC", "-isystem", headers, work / "libonnxruntime.so.1"]
    kit.compile_program(EXAMPLE / "session.cpp", library, *options, libraries=libraries)
    kit.ask("javac", "-cp", str(jar), "-d", str(work), str(EXAMPLE / "Session.java"))
    model = work / "chain.onnx"
    model.write_bytes(onnx_model.model())
    said = kit.run("java", "-cp", f"{jar}:{work}", "Session", library, model, "Cpu")
    in_use, left = map(int, re.findall(r"^(\d+)", said, flags=re.MULTILINE))
    if in_use < 4 * 4 * onnx_model.WIDTH**2 or left != 0:
        raise kit.Failed(said)
    return [kit.Tried(".".join(VERSION.split(".")[:2]), "ran on CPU")]
