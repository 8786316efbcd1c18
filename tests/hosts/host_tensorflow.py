# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's CPU package under `gpupool run`. Its own allocator for GPUs takes memory of a stand-in for one, so what
it heeds of the settings is seen; what is computed stays on the CPU."""

import json
import platform
import sys
from pathlib import Path

import kit

VERSION = "2.21.0"
SOURCE = kit.ROOT / "tests/hosts/stand_ins/tensorflow/device.c"
STEPS = kit.ROOT / "tests/hosts/tensorflow_steps.py"


def expect(what: str, is_so: bool, found: object) -> None:
    if not is_so:
        raise kit.Failed(f"{what}: {found}")


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    packages = kit.installed(f"tensorflow-cpu=={VERSION}")
    work.mkdir(parents=True, exist_ok=True)
    device = work / "device.so"
    include = packages / "tensorflow/include"
    kit.ask("cc", "-shared", "-fPIC", "-O1", "-isystem", str(include), str(SOURCE), "-o", str(device))
    command = libraries / "gpupool"
    environment = {
        "PYTHONPATH": str(packages),
        "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(device),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }

    def steps(*options: str, step: str = "", **more: str) -> dict:
        words = [command, "run", *options, "--"] if options else []
        said = kit.run(*words, sys.executable, "-B", STEPS, *([step] if step else []), **environment, **more)
        return json.loads(said.splitlines()[-1])

    printed = kit.run(command, "run", "--cap", "2GiB", "--print", "--", sys.executable, STEPS)
    expect("it is set", "TF_FORCE_GPU_ALLOW_GROWTH=true\n" in printed, printed)

    plain = steps()
    expect("TensorFlow takes all that there is", plain["taken"] > 7 << 10, plain)
    expect("what it frees stays its own", plain["used_after"] == 0 and plain["taken_after"] == plain["taken"], plain)
    means = [("--cap", "2GiB"), ("--keep", "--cap", "2GiB")]
    if tuple(map(int, platform.libc_ver()[1].split("."))) >= (2, 35):
        means.append(("--hooks", "--cap", "2GiB"))
    for options in means:
        found = steps(*options)
        expect(f"under {options} it takes what it needs", 64 <= found["taken"] <= 128, found)
        expect(f"under {options} it has the same result", found["digest"] == plain["digest"], found)
        expect("it keeps what it has freed, all the same", found["taken_after"] == found["taken"], found)
    own = steps("--cap", "2GiB", TF_FORCE_GPU_ALLOW_GROWTH="false")
    expect("the user's own value stays", own["taken"] == plain["taken"], own)
    expect("the program's own growth", steps(step="growth")["taken"] <= 128, "")
    # The plugin's devices are not divided, so the limits are accepted here and no more.
    part = steps(step="part")
    expect("TensorFlow accepts parts, of which this device has none", part["logical"] == 1, part)
    version = ".".join(VERSION.split(".")[:2])
    return [kit.Tried(version, "ran on CPU, ran with a stand-in (growth, for the GPU)")]
