# SPDX-License-Identifier: Apache-2.0
"""MemPools, and what is routed to them."""

import contextlib

_backend = "native"
_device = 0
_routes = []
captures = []


class OutOfMemoryError(RuntimeError):
    """The device is full."""


class CUDAGraph:
    """Something that can be weakly referenced."""


class _Driver:
    """The allocator of a MemPool that was given none: nothing of gpupool's."""

    taken = []

    def alloc(self, size, device, stream):
        import ctypes  # noqa: PLC0415

        self.taken.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.taken[-1])

    def free(self, ptr, size, device, stream):
        """Never asked for."""


class MemPool:
    _last = 0

    def __init__(self, allocator=None):
        self.allocator = allocator or _Driver()
        self.segments = []
        MemPool._last += 1
        self.id = (0, MemPool._last)

    def find(self, size):
        for segment in self.segments:
            if segment["active_size"] == 0 and segment["total_size"] >= size:
                return segment
        total = max(2 << 20, (size + (2 << 20) - 1) // (2 << 20) * (2 << 20))
        address = self.allocator.alloc(total, _device, None)
        if not address:
            raise OutOfMemoryError(f"tried to allocate {total} bytes")
        self.segments.append({"address": address, "total_size": total, "device": _device})
        return self.segments[-1]

    def snapshot(self):
        return [dict(segment) for segment in self.segments]

    def empty_cache(self):
        for segment in [each for each in self.segments if each["active_size"] == 0]:
            self.allocator.free(segment["address"], segment["total_size"], segment["device"], None)
            self.segments.remove(segment)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    _routes.append((pool, device))
    try:
        yield
    finally:
        _routes.pop()


@contextlib.contextmanager
def graph(cuda_graph, pool=None, stream=None, capture_error_mode="global"):
    """Allocations of a capture come from the pool with that number."""
    captures.append((cuda_graph, pool, stream, capture_error_mode))
    import gc  # noqa: PLC0415

    found = next(each for each in gc.get_objects() if isinstance(each, MemPool) and each.id == pool)
    with use_mem_pool(found):
        yield


def get_allocator_backend():
    return _backend


def current_device():
    return _device
