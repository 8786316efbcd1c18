# SPDX-License-Identifier: Apache-2.0
"""gpupool in CuPy.

    gpupool.install("cupy")                                          # all of CuPy's memory
    with cupy.cuda.using_allocator(gpupool.cupy.allocator): ...      # or this thread's, for a while

An array belongs to the stream that is current when it is created, and is freed in that stream's order, as in CuPy's own
pool. After install, cupy.get_default_memory_pool() reports gpupool. Earlier arrays stay where they are.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

from .._native import ffi, lib
from .._tags import follow_context
from . import Undo
from ._cupy_pool import DefaultPool
from ._pools import release_streams_before_they_end

cupy: Any = importlib.import_module("cupy")


def _current_stream() -> int:
    """The address of CuPy's C function that returns this thread's current stream."""
    name = b"intptr_t (void)"
    capsule = getattr(cupy.cuda.stream, "__pyx_capi__", {}).get("get_current_stream_ptr")
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    # CuPy 13 does not translate C++ exceptions to Python.
    if int(cupy.__version__.split(".")[0]) < 14 or not is_valid(capsule, name):
        raise RuntimeError(f"gpupool needs CuPy 14; this is {cupy.__version__}")
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get_pointer(capsule, name) or 0)


def _function(name: str) -> int:
    return int(ffi.cast("uintptr_t", ffi.addressof(lib, name)))


_malloc = cupy.cuda.CFunctionAllocator(
    _current_stream(), _function("gpupool_py_cupy_malloc"), _function("gpupool_py_cupy_free"), lib
).malloc
release_streams_before_they_end(cupy.cuda.Stream, lambda stream: (stream.device_id, stream.ptr))


def allocator(size: int) -> Any:
    """Memory from the current device's default pool, for the current stream: for cupy.cuda.set_allocator and
    using_allocator. Raises cupy.cuda.memory.OutOfMemoryError."""
    follow_context()
    try:
        return _malloc(size)
    except MemoryError as error:
        shortage = cupy.cuda.memory.OutOfMemoryError(size, -1)
        shortage.args = (f"Out of memory allocating {size:,} bytes. gpupool: {error}",)
        raise shortage from None


def check() -> None:
    """Raises RuntimeError if CuPy has another library's allocator."""
    current = cupy.cuda.get_allocator()
    if current in (None, allocator) or isinstance(
        getattr(current, "__self__", None), (cupy.cuda.MemoryPool, cupy.cuda.MemoryAsyncPool)
    ):
        return
    if getattr(current, "__module__", None) in ("cupy.cuda.memory", None):
        return
    raise RuntimeError(
        f"CuPy already has another library's allocator ({current!r}); leave that cupy.cuda.set_allocator out, or "
        "use `with cupy.cuda.using_allocator(gpupool.cupy.allocator):`"
    )


def put() -> Undo:
    """Makes `allocator` CuPy's, for the process; returns a function that undoes it. Empties the cache of CuPy's own
    pool."""
    before, own_pool = cupy.cuda.get_allocator(), cupy.get_default_memory_pool
    cupy.cuda.set_allocator(allocator)
    own_pool().free_all_blocks()
    cupy.get_default_memory_pool = functools.partial(DefaultPool, allocator)

    def undo() -> None:
        cupy.cuda.set_allocator(before)
        cupy.get_default_memory_pool = own_pool

    return undo
