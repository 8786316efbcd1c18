# SPDX-License-Identifier: Apache-2.0
"""JAX's CPU package under `gpupool run`: what it would ask of a GPU's allocator, and what it computes."""

import json
import sys
from pathlib import Path

import kit

VERSION = "0.10.2"
PROGRAM = """
import hashlib, json, jax
from jaxlib import xla_client
a = (jax.numpy.arange(1 << 16, dtype="f4") % 97).reshape(256, 256)
digest = hashlib.sha256(jax.device_get(a @ a + jax.numpy.sort(a, axis=1)).tobytes()).hexdigest()
options = {name: str(value) for name, value in xla_client.generate_pjrt_gpu_plugin_options().items()}
jax.clear_caches()
print(json.dumps({"digest": digest} | options))
"""


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    environment = {
        "PYTHONPATH": str(kit.installed(f"jax=={VERSION}")),
        "JAX_PLATFORMS": "cpu",
        # Of 8 GiB.
        "GPUPOOL_LIBNVML": str(libraries / "tests/libfake_nvml.so"),
        "FAKE_NVML_ID": "GPU-1",
    }

    def ask(*options: str, **more: str) -> dict[str, str]:
        words = [libraries / "gpupool", "run", *options, "--"] if options else []
        return json.loads(kit.run(*words, sys.executable, "-c", PROGRAM, **environment, **more).splitlines()[-1])

    plain = ask()
    capped = ask("--cap", "2GiB")
    own = ask("--cap", "2GiB", XLA_CLIENT_MEM_FRACTION=".125")
    slow = ask(XLA_PYTHON_CLIENT_ALLOCATOR="platform")
    if (capped["memory_fraction"], capped["preallocate"], capped["digest"]) != ("0.25", "False", plain["digest"]):
        raise kit.Failed(f"under --cap 2GiB of 8 GiB: {capped}, without: {plain}")
    if own["memory_fraction"] != "0.125" or slow["allocator"] != "platform":
        raise kit.Failed(f"its own settings: {own}, {slow}")
    return [kit.Tried(VERSION, "ran on CPU")]
