# SPDX-License-Identifier: Apache-2.0
"""The part of ONNX Runtime that gpupool touches."""

import ctypes
from typing import Any


def check_and_normalize_provider_args(
    providers: Any, provider_options: Any, available: Any
) -> tuple[list[str], list[dict[str, str]]]:
    names = [each if isinstance(each, str) else each[0] for each in providers or []]
    given = [
        {} if isinstance(each, str) else {name: str(value) for name, value in each[1].items()}
        for each in providers or []
    ]
    return names, given


class InferenceSession:
    def __init__(
        self, model: str, sess_options: Any = None, providers: Any = None, provider_options: Any = None
    ) -> None:
        names, given = check_and_normalize_provider_args(providers, provider_options, ())
        self.options = dict(zip(names, given, strict=True))
        cuda = self.options.get("CUDAExecutionProvider", {})
        addresses = [int(cuda.get(f"gpu_external_{name}", "0")) for name in ("alloc", "free", "empty_cache")]
        if all(addresses):
            self.malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(addresses[0])
            self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses[1])
            self.empty_cache = ctypes.CFUNCTYPE(None)(addresses[2])
