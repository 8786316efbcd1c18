# SPDX-License-Identifier: Apache-2.0
"""Where Numba keeps its memory manager."""

from types import SimpleNamespace
from typing import Any

_memory_manager: Any = None

binding = SimpleNamespace(CUresult=int, CUdeviceptr=int)


class CudaAPIError(Exception):
    pass


class NumbaCUDAMemoryManager:
    """What it takes by default."""


NumbaCUDAMemoryManager.__module__ = "numba.cuda.cudadrv.driver"
