# SPDX-License-Identifier: Apache-2.0
"""What torch.cuda.memory.CUDAPluggableAllocator makes of two functions."""

import ctypes


class _Allocator:
    def __init__(self, alloc, free):
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(alloc)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(free)


def _cuda_customAllocator(alloc, free):
    return _Allocator(alloc, free)
