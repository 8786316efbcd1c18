# SPDX-License-Identifier: Apache-2.0
"""gpupool in ONNX Runtime's CUDA provider.

    gpupool.install("onnxruntime")                                   # all sessions from here on; or one:
    providers = [("CUDAExecutionProvider", gpupool.onnxruntime.options(0)), "CPUExecutionProvider"]

ONNX Runtime tells its allocator neither device nor stream. So all its sessions on a device compute on one stream of
gpupool's, in whose order memory is reused. Where a session has a stream of its own (user_compute_stream, or the CUDA
provider as a plug-in, which accepts no stream beside an allocator), a free waits for the device, as cudaFree does.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .._arguments import device_number
from .._error import check as check_status
from .._native import ffi, lib
from . import Undo

CUDA = "CUDAExecutionProvider"
_NAMES = ("gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache")

_onnxruntime: Any = importlib.import_module("onnxruntime")
_collection: Any = importlib.import_module("onnxruntime.capi.onnxruntime_inference_collection")


def stream(device: int = 0) -> int:
    """The stream that ONNX Runtime computes on, for work that must come after it. Never ends. Raises as options."""
    number = ffi.new("gpupool_stream_t *")
    _functions(device, is_ordered=True)
    check_status(lib.gpupool_py_ort_stream(device, number))
    return int(number[0])


def options(device: int = 0) -> dict[str, str]:
    """Options of CUDAExecutionProvider that give it the memory of default_pool(device). Raises as default_pool, and
    ValueError for a device above 63."""
    if _is_plugin():
        return {"device_id": str(device), **_functions(device, is_ordered=False)}
    return {
        "device_id": str(device),
        **_functions(device, is_ordered=True),
        "has_user_compute_stream": "1",
        "user_compute_stream": str(stream(device)),
    }


def session_entries(device: int = 0) -> dict[str, str]:
    """The same as session options, as the CUDA provider reads them when it is a plug-in: for
    SessionOptions.add_session_config_entry(name, value)."""
    functions = _functions(device, is_ordered=False)
    return {f"ep.cuda.{name}": value for name, value in functions.items()}


def _functions(device: int, *, is_ordered: bool) -> dict[str, str]:
    addresses = ffi.new("uintptr_t[3]")
    if not lib.gpupool_py_ort_functions(device_number("device", device), is_ordered, addresses):
        raise ValueError(f"device is {device}; ONNX Runtime can have the pools of devices 0 to 63")
    return {name: str(int(address)) for name, address in zip(_NAMES, addresses, strict=True)}


def _is_plugin() -> bool:
    return "cuda-plugin-ep=1" in _onnxruntime.get_build_info()


def _is_set(given: dict[str, str], name: str) -> bool:
    return given.get(name, "0") not in ("", "0")


def _served(given: dict[str, str]) -> dict[str, str]:
    """The options of a session, with the pool where they leave a place for it."""
    has_stream = _is_set(given, "user_compute_stream")
    if _is_set(given, "gpu_external_alloc") or (has_stream and _is_plugin()):
        return given
    device = int(given.get("device_id", "0"))
    if has_stream:
        return {**_functions(device, is_ordered=False), **given}
    return {**given, **options(device)}


def check() -> None:
    """Raises RuntimeError if this ONNX Runtime has no CUDA provider, or is older than its allocators."""
    if CUDA not in _onnxruntime.get_available_providers():
        raise RuntimeError(
            f"this ONNX Runtime, {_onnxruntime.__version__}, has no CUDA provider: install onnxruntime-gpu in place of "
            "onnxruntime"
        )
    if not hasattr(_collection, "check_and_normalize_provider_args"):
        raise RuntimeError(f"gpupool needs ONNX Runtime 1.16; this is {_onnxruntime.__version__}")


def put() -> Undo:
    """Gives the pool to every session that is created from now on and has no other allocator; returns a function that
    undoes it."""
    before = _collection.check_and_normalize_provider_args

    @functools.wraps(before)
    def check_and_normalize_provider_args(*arguments: Any, **named: Any) -> tuple[list[str], list[dict[str, str]]]:
        names, given = before(*arguments, **named)
        return names, [_served(each) if name == CUDA else each for name, each in zip(names, given, strict=True)]

    _collection.check_and_normalize_provider_args = check_and_normalize_provider_args

    def undo() -> None:
        _collection.check_and_normalize_provider_args = before

    return undo
