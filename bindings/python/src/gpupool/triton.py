# SPDX-License-Identifier: Apache-2.0
"""gpupool in Triton: see gpupool.frameworks.triton."""

from .frameworks.triton import Memory, allocator

__all__ = ["Memory", "allocator"]
