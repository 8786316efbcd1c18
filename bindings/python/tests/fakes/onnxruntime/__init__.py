# SPDX-License-Identifier: Apache-2.0
"""A stand-in for ONNX Runtime with CUDA: a session takes its memory through the addresses in its options."""

import os

from .capi.onnxruntime_inference_collection import InferenceSession

__version__ = "1.32.0"


def get_available_providers() -> list[str]:
    return ["CUDAExecutionProvider", "CPUExecutionProvider"]


def get_build_info() -> str:
    return f"ORT Build Info: cuda-plugin-ep={os.environ.get('FAKE_PLUGIN', '0')}"


__all__ = ["InferenceSession", "get_available_providers", "get_build_info"]
