# SPDX-License-Identifier: Apache-2.0
"""A stand-in for PyTorch: tensors of bytes in MemPools with allocators of their own, whose segments stay in a cache."""

import ctypes

from . import _C, cuda

__version__ = "0.0-stand-in"
uint8, int64 = "uint8", "int64"
_SIZES = {uint8: 1, int64: 8}


class version:
    cuda = "13.0"


class Tensor:
    def __init__(self, address, count, dtype, shape=None, owner=None):
        self.address, self.count, self.dtype, self.owner = address, count, dtype, owner
        self.shape = (count,) if shape is None else tuple(shape)

    def data_ptr(self):
        return self.address

    def numel(self):
        return self.count

    def element_size(self):
        return _SIZES[self.dtype]

    def is_contiguous(self):
        return self.owner != "strided"

    def view(self, shape):
        return Tensor(self.address, self.count, self.dtype, shape, self)

    def clone(self):
        copy = ctypes.create_string_buffer(self.bytes(), self.count * self.element_size())
        return Tensor(ctypes.addressof(copy), self.count, self.dtype, self.shape, copy)

    def bytes(self):
        return ctypes.string_at(self.address, self.count * self.element_size())

    def fill_(self, value):
        ctypes.memset(self.address, value, self.count * self.element_size())
        return self


class _Memory:
    """What a tensor on the device lies in; dropped with it."""

    def __init__(self, pool, segment):
        self.pool, self.segment = pool, segment
        segment["active_size"] = segment["allocated_size"] = segment["total_size"]

    def __del__(self):
        self.segment["active_size"] = self.segment["allocated_size"] = 0


def empty(count, dtype=uint8, device="cuda"):
    assert device == "cuda"
    size = count * _SIZES[dtype]
    pool = cuda._routes[-1][0]
    segment = pool.find(size)
    return Tensor(segment["address"], count, dtype, owner=_Memory(pool, segment))


def frombuffer(buffer, *, dtype, count):
    view = (ctypes.c_char * (count * _SIZES[dtype])).from_buffer(buffer)
    return Tensor(ctypes.addressof(view), count, dtype, owner=view)


__all__ = ["_C", "Tensor", "cuda", "empty", "frombuffer"]
