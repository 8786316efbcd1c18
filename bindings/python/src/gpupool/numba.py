# SPDX-License-Identifier: Apache-2.0
"""gpupool in Numba, for NUMBA_CUDA_MEMORY_MANAGER=gpupool.numba: see gpupool.frameworks.numba."""

from .frameworks.numba import MemoryManager, _numba_memory_manager

__all__ = ["MemoryManager", "_numba_memory_manager"]
