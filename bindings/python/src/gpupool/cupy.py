# SPDX-License-Identifier: Apache-2.0
"""gpupool in CuPy: see gpupool.frameworks.cupy."""

from .frameworks.cupy import allocator

__all__ = ["allocator"]
