# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the pool: with a stand-in that has CUDA, and with the real package, whose wheel for the CPU reads the
options of a CUDA provider."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from test_frameworks_install import FAKES, SETUP, works

FOLDER = Path(__file__).parent


def test_all_sessions_have_the_pool() -> None:
    works("""
        gpupool.install("onnxruntime")
        import onnxruntime
        session = onnxruntime.InferenceSession("m", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        options = session.options["CUDAExecutionProvider"]
        stream = gpupool.onnxruntime.stream(0)
        assert options["user_compute_stream"] == str(stream) and options["has_user_compute_stream"] == "1"
        assert session.options["CPUExecutionProvider"] == {}
        pool = gpupool.default_pool(0)
        address = session.malloc(1 << 20)
        assert pool.block_info(address).stream == stream
        session.free(address)
        assert session.malloc(1 << 20) == address, "reused in the stream's order, without a wait"
        assert session.malloc(0) is None
        session.free(address)
        session.free(None)
        session.empty_cache()
        pool.set_limit(4 << 20)
        assert session.malloc(1 << 30) is None
        assert pool.memory_allocated() == 0 and gpupool.sim.faults(0).count == 0
    """)


def test_a_stream_of_its_own_is_waited_for() -> None:
    works("""
        gpupool.install("onnxruntime")
        import onnxruntime
        pool = gpupool.default_pool(0)
        own = pool.stream()
        given = {"device_id": 0, "user_compute_stream": int(own), "has_user_compute_stream": 1}
        session = onnxruntime.InferenceSession("m", providers=[("CUDAExecutionProvider", given)])
        assert session.options["CUDAExecutionProvider"]["user_compute_stream"] == str(int(own))
        address = session.malloc(1 << 20)
        gpupool.sim.work(1_000_000, own, address=address, size=1 << 20)
        session.free(address)  # while the stream still uses it
        again = session.malloc(1 << 20)
        assert again == address
        gpupool.sim.work(1000, gpupool.onnxruntime.stream(0), address=again, size=1 << 20)
        assert gpupool.sim.faults(0).count == 0
    """)


def test_as_a_plug_in() -> None:
    program = """
        gpupool.install("onnxruntime")
        import onnxruntime
        given = {"device_id": 0, "user_compute_stream": 5}
        session = onnxruntime.InferenceSession("m", providers=[("CUDAExecutionProvider", given)])
        assert "gpu_external_alloc" not in session.options["CUDAExecutionProvider"], "it accepts one of the two"
        session = onnxruntime.InferenceSession("m", providers=["CUDAExecutionProvider"])
        assert "user_compute_stream" not in session.options["CUDAExecutionProvider"]
        entries = gpupool.onnxruntime.session_entries(0)
        assert sorted(entries) == [f"ep.cuda.gpu_external_{name}" for name in ("alloc", "empty_cache", "free")]
        assert entries["ep.cuda.gpu_external_alloc"] == session.options["CUDAExecutionProvider"]["gpu_external_alloc"]
        session.free(session.malloc(1000))
        assert gpupool.default_pool(0).memory_allocated() == 0
    """
    works(program, FAKE_PLUGIN="1")


def test_another_allocator_is_left_alone() -> None:
    works("""
        gpupool.install("onnxruntime")
        import onnxruntime
        given = {"gpu_external_alloc": 1, "gpu_external_free": 2, "gpu_external_empty_cache": 3}
        session = onnxruntime.InferenceSession("m", providers=[("CUDAExecutionProvider", given)])
        assert session.options["CUDAExecutionProvider"] == {name: str(value) for name, value in given.items()}
    """)


def test_each_device_has_functions_of_its_own() -> None:
    works("""
        first, second = gpupool.onnxruntime.options(0), gpupool.onnxruntime.options(1)
        assert first["gpu_external_alloc"] != second["gpu_external_alloc"]
        assert second["device_id"] == "1"
        for device in (-1, 64):
            try:
                gpupool.onnxruntime.options(device)
            except ValueError as error:
                print(error)
            else:
                raise AssertionError(device)
    """)


REAL = """
import numpy, onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection as collection

refused("onnxruntime")
cuda = ["CUDAExecutionProvider", "CPUExecutionProvider"]
onnxruntime.get_available_providers = lambda: cuda
model = open(MODEL, "rb").read()
inputs = [numpy.arange(64, dtype=numpy.float32).reshape(1, 64) * seed for seed in range(20)]
plain = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
wanted = [plain.run(None, {"x": x})[0] for x in inputs]
gpupool.install("onnxruntime")
names, options = collection.check_and_normalize_provider_args(cuda, None, cuda)
assert names == cuda and int(options[0]["gpu_external_alloc"]) and options[1] == {}, options
session_options = onnxruntime.SessionOptions()
for name, value in gpupool.onnxruntime.session_entries(0).items():
    session_options.add_session_config_entry(name, value)
session = onnxruntime.InferenceSession(model, session_options, providers=["CPUExecutionProvider"])
for run in range(200):
    assert (session.run(None, {"x": inputs[run % 20]})[0] == wanted[run % 20]).all()
"""


def test_with_the_real_package(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = tmp_path / "chain.onnx"
    subprocess.run([sys.executable, "-B", FOLDER.parents[2] / "tests/hosts/onnx_model.py", model], check=True)
    done = subprocess.run(
        [sys.executable, "-c", f"{textwrap.dedent(SETUP)}\nMODEL = {str(model)!r}\n{REAL}"],
        env={**os.environ, "GPUPOOL_BACKEND": "sim"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "has no CUDA provider: install onnxruntime-gpu" in done.stdout
    assert FAKES not in done.stdout
