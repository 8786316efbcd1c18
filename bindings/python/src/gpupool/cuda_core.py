# SPDX-License-Identifier: Apache-2.0
"""gpupool in cuda.core: see gpupool.frameworks.cuda_core."""

from .frameworks.cuda_core import MemoryResource

__all__ = ["MemoryResource"]
