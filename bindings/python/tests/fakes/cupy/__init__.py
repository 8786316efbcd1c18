# SPDX-License-Identifier: Apache-2.0
"""CuPy: its allocators and streams, as gpupool meets them."""

import ctypes
from types import SimpleNamespace
from typing import Any

__version__ = "14.2.0"

state = SimpleNamespace(stream=0, emptied=0, destroyed=[])

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_name = b"intptr_t (void)"
_function = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: state.stream)


class CFunctionAllocator:
    def __init__(self, param: int, malloc: int, free: int, owner: object) -> None:
        self.call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc)
        self.end = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free)
        self.param = param

    def malloc(self, size: int) -> "Memory":
        return Memory(self, self.call(self.param, size, 0))


class Memory:
    def __init__(self, owner: CFunctionAllocator, ptr: int) -> None:
        self.owner = owner
        self.ptr = ptr

    def __del__(self) -> None:
        self.owner.end(self.owner.param, self.ptr, 0)


class MemoryPool:
    def malloc(self, size: int) -> Any:
        raise NotImplementedError

    def free_all_blocks(self) -> None:
        state.emptied += 1


class MemoryAsyncPool:
    pass


class Stream:
    def __init__(self, ptr: int) -> None:
        self.ptr = ptr
        self.device_id = 0

    def __del__(self) -> None:
        state.destroyed.append(self.ptr)


_pool = MemoryPool()
_allocator: list[Any] = [_pool.malloc]


def get_default_memory_pool() -> Any:
    return _pool


def _set_allocator(allocator: Any) -> None:
    if allocator == "refused":
        raise ValueError("Can't change the global allocator")
    _allocator[0] = allocator


cuda = SimpleNamespace(
    CFunctionAllocator=CFunctionAllocator,
    MemoryPool=MemoryPool,
    MemoryAsyncPool=MemoryAsyncPool,
    Stream=Stream,
    Device=lambda: SimpleNamespace(id=0),
    get_allocator=lambda: _allocator[0],
    set_allocator=_set_allocator,
    memory=SimpleNamespace(OutOfMemoryError=MemoryError),
    stream=SimpleNamespace(
        __pyx_capi__={"get_current_stream_ptr": _new(ctypes.cast(_function, ctypes.c_void_p), _name, None)}
    ),
)
