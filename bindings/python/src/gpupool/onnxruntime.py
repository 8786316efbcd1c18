# SPDX-License-Identifier: Apache-2.0
"""gpupool in ONNX Runtime: see gpupool.frameworks.onnxruntime."""

from .frameworks.onnxruntime import options, session_entries, stream

__all__ = ["options", "session_entries", "stream"]
