# SPDX-License-Identifier: Apache-2.0
"""gpupool in Numba.

    gpupool.install("numba")                              # before the first use of the GPU, or in the environment:
    NUMBA_CUDA_MEMORY_MANAGER=gpupool.numba

Numba does not say which streams use an array. So its memory is freed for all streams that the pool has seen, and reused
only when no stream can still touch it: safe, but a few microseconds slower than in the other frameworks.
"""

from __future__ import annotations

import ctypes
import importlib
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._error import Error
from .._pool import default_pool
from .._status_errors import OutOfMemoryError
from . import Undo, _any_stream

_cuda: Any = importlib.import_module("numba.cuda")
_driver: Any = importlib.import_module("numba.cuda.cudadrv.driver")


_OUT_OF_MEMORY = 2
"""CUDA's number for it."""

# Where Numba calls the driver through NVIDIA's bindings. Without them it is ctypes: in numba before numba-cuda, and in
# numba-cuda before 0.15.
_binding: Any = getattr(_driver, "binding", None)


def _pointer(address: int) -> Any:
    """As this Numba has it."""
    return ctypes.c_void_p(address) if _binding is None else _binding.CUdeviceptr(address)


def _free(device: int, address: int) -> None:
    # A finalizer may run in a forked child or after the driver has gone: the pool hands out no more memory then.
    with suppress(Error):
        _any_stream.free(device, address)


if TYPE_CHECKING:
    _Base = object
else:
    _Base = _cuda.HostOnlyCUDAMemoryManager


class MemoryManager(_Base):
    """Numba's External Memory Management: device memory from the default pool; page-locked and managed memory stays
    Numba's own."""

    context: Any
    interface_version: int = 1

    def initialize(self) -> None:
        """Does nothing: the first array creates the pool."""

    def memalloc(self, size: int) -> Any:
        """Raises CudaAPIError with CUDA_ERROR_OUT_OF_MEMORY, as Numba does."""
        device = self.context.device.id
        try:
            address = _any_stream.malloc(device, size)
        except OutOfMemoryError as error:
            code = _OUT_OF_MEMORY if _binding is None else _binding.CUresult(_OUT_OF_MEMORY)
            raise _driver.CudaAPIError(code, str(error)) from error
        context = weakref.proxy(self.context)
        return _cuda.MemoryPointer(context, _pointer(address), size, finalizer=lambda: _free(device, address))

    def get_ipc_handle(self, memory: Any) -> Any:
        """Raises NotImplementedError: the driver has no IPC handles for mapped memory."""
        raise NotImplementedError(
            "CUDA has no IPC handles for memory that gpupool has mapped; allocate memory that other processes open "
            "without gpupool"
        )

    def get_memory_info(self) -> Any:
        """What is left under the pool's limit, and that limit; without a limit, the same of the device."""
        pool = default_pool(self.context.device.id)
        device, stats = pool.device_info(), pool.stats()
        held = stats.all.reserved_bytes.current
        total = stats.limit_bytes or device.total_bytes
        free = min(total - held, device.free_bytes) + held - stats.all.allocated_bytes.current
        return _cuda.MemoryInfo(free=free, total=total)


_numba_memory_manager = MemoryManager


def check() -> None:
    """Raises RuntimeError if Numba has started with another memory manager."""
    current = _driver._memory_manager
    if current in (None, MemoryManager):
        return
    if current.__module__.startswith("numba."):
        raise RuntimeError(
            'gpupool.install("numba") comes too late: Numba has set up CUDA with its own memory manager, and keeps it. '
            "Call it before the first use of the GPU, or set NUMBA_CUDA_MEMORY_MANAGER=gpupool.numba in the environment"
        )
    raise RuntimeError(
        f"Numba already has another library's memory manager ({current.__module__}.{current.__name__}); leave that "
        "numba.cuda.set_memory_manager, or NUMBA_CUDA_MEMORY_MANAGER, out"
    )


def put() -> Undo:
    """Makes gpupool Numba's memory manager; returns a function that undoes it."""
    before = _driver._memory_manager
    _cuda.set_memory_manager(MemoryManager)

    def undo() -> None:
        _driver._memory_manager = before

    return undo
