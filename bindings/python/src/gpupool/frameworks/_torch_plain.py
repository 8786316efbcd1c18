# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pluggable allocator, used if the shim cannot be built.

PyTorch asks a pluggable allocator only for memory; its statistics then raise. So this module replaces the functions of
torch._C from which PyTorch's Python code gets its figures, and everything above them stays PyTorch's own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .._enums import BlockState
from .._native import ffi, lib
from .._pool import default_pool
from .._structs import Block, Segment, Stats
from .._torch_names import memory_stats
from ._torch_settings import heed_settings
from ._torch_shim import torch_library_path

# The setters, and the argument of each.
_HOOKS = {
    "set_init_fn": "gpupool_torch_init",
    "set_reset_fn": "gpupool_torch_reset",
    "set_memory_fraction_fn": "gpupool_torch_memory_fraction",
    "set_base_alloc_fn": "gpupool_torch_base_alloc",
    "set_record_stream_fn": "gpupool_torch_record_stream",
    "set_begin_allocate_to_pool": "gpupool_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "gpupool_torch_end_allocate_to_pool",
    "set_release_pool": "gpupool_torch_release_pool",
}


def create(torch: Any, alloc: str) -> Any:
    """A PyTorch allocator with every hook that it accepts."""
    path = str(torch_library_path())
    wrapper = torch.cuda.memory.CUDAPluggableAllocator(path, alloc, "gpupool_torch_free")
    library, allocator = ctypes.CDLL(path), wrapper.allocator()
    for setter, function in _HOOKS.items():
        getattr(allocator, setter)(ctypes.cast(getattr(library, function), ctypes.c_void_p).value)
    return wrapper


def install(torch: Any) -> None:
    heed_settings()
    torch.cuda.memory.change_current_allocator(create(torch, "gpupool_torch_alloc_or_throw"))
    for name, function in Answers(torch).functions().items():
        setattr(torch._C, name, function)


class Answers:
    """The figures of a device, over all pools that hold its memory."""

    def __init__(self, torch: Any) -> None:
        self._library = ctypes.CDLL(str(torch_library_path()))
        self._library.gpupool_torch_pools.restype = ctypes.c_size_t
        self._library.gpupool_torch_limit.restype = ctypes.c_uint64
        self._torch = torch
        self._set_fraction = torch._C._cuda_setMemoryFraction
        self._fractions: dict[int, tuple[float, int]] = {}  # the fraction as set, and the resulting limit
        self._bases: dict[int, dict[str, int]] = {}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions, by the names that they replace in torch._C."""
        return {
            "_cuda_memoryStats": self.stats,
            "_cuda_resetPeakMemoryStats": self.reset_peaks,
            "_cuda_resetAccumulatedMemoryStats": self.reset_accumulated,
            "_cuda_memorySnapshot": self.snapshot,
            "_cuda_setMemoryFraction": self.set_fraction,
            "_cuda_getMemoryFraction": self.fraction,
        }

    def stats(self, device: int) -> dict[str, Any]:
        base = self._bases.get(device, {})
        nested: dict[str, Any] = {}
        for name, value in self._since_start(device).items():
            *path, last = name.split(".")
            inner = nested
            for part in path:
                inner = inner.setdefault(part, {})
            inner[last] = value - (base.get(name, 0) if last not in ("current", "peak", "max_split_size") else 0)
        return nested

    def reset_accumulated(self, device: int) -> None:
        self._bases[device] = self._since_start(device)

    def reset_peaks(self, device: int) -> None:
        for pool in self._pools(device):
            lib.gpupool_reset_peaks(pool)

    def set_fraction(self, fraction: float, device: int) -> None:
        self._set_fraction(fraction, device)
        self._fractions[device] = fraction, int(self._library.gpupool_torch_limit(device))

    def fraction(self, device: int) -> float:
        """Exactly the fraction that was set, if its limit is still in force."""
        limit = int(self._library.gpupool_torch_limit(device))
        fraction, made = self._fractions.get(device, (1.0, 0))
        if limit == made:
            return fraction
        return limit / int(self._torch.cuda.mem_get_info(device)[1]) if limit else 1.0

    def snapshot(self, mempool_id: object = None, include_traces: bool = True) -> dict[str, Any]:
        devices = range(self._torch.cuda.device_count())
        used = [device for device in devices if self._library.gpupool_torch_pools(device, None, None, 0)]
        return {
            "segments": [segment for device in used for segment in _segments(device)],
            "device_traces": [[] for _ in devices],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "backend:gpupool", "expandable_segments": True},
            "external_annotations": [],
        }

    def _pools(self, device: int) -> list[Any]:
        count = self._library.gpupool_torch_pools(device, None, None, 0)
        found = (ctypes.c_void_p * count)()
        count = min(count, self._library.gpupool_torch_pools(device, found, None, count))
        return [ffi.cast("gpupool_t *", found[i]) for i in range(count)]

    def _since_start(self, device: int) -> dict[str, int]:
        """The sums over the pools, peaks included."""
        stats = ffi.new("gpupool_stats_t *")
        stats.struct_size = ffi.sizeof("gpupool_stats_t")
        total = memory_stats(Stats._of(stats))
        for pool in self._pools(device):
            stats.struct_size = ffi.sizeof("gpupool_stats_t")
            lib.gpupool_stats(pool, stats)
            total = {name: total[name] + value for name, value in memory_stats(Stats._of(stats)).items()}
        return total | {"max_split_size": -1}


def _segments(device: int) -> list[dict[str, Any]]:
    """The default pool's mapped memory as PyTorch shows expandable segments: each run without a gap is one segment, and
    its blocks cover it."""
    snapshot = default_pool(device).snapshot()
    blocks = [block for block in snapshot.blocks if block.state != BlockState.CACHED]
    runs: list[list[Segment]] = []
    for chunk in snapshot.segments:
        last = runs[-1][-1] if runs else None
        is_next = last is not None and last.address + last.size_bytes == chunk.address
        if is_next and (last.stream, last.is_small) == (chunk.stream, chunk.is_small):  # type: ignore[union-attr]
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return [_segment(device, run, blocks) for run in runs]


def _segment(device: int, run: list[Segment], blocks: list[Block]) -> dict[str, Any]:
    start, end = run[0].address, run[-1].address + run[-1].size_bytes
    inside = [block for block in blocks if start <= block.address < end]
    entries = []
    at = start
    for block in inside:
        if block.address > at:
            entries.append(_entry(at, block.address - at, 0, "inactive"))
        state = "active_allocated" if block.state == BlockState.LIVE else "active_pending_free"
        requested = block.requested_bytes if block.state == BlockState.LIVE else 0  # as the statistics count it
        entries.append(_entry(block.address, block.allocated_bytes, requested, state))
        at = block.address + block.allocated_bytes
    if at < end:
        entries.append(_entry(at, end - at, 0, "inactive"))
    live = [block for block in inside if block.state == BlockState.LIVE]
    return {
        "device": device,
        "address": start,
        "total_size": end - start,
        "allocated_size": sum(block.allocated_bytes for block in live),
        "active_size": sum(block.allocated_bytes for block in inside),
        "requested_size": sum(block.requested_bytes for block in live),
        "stream": run[0].stream,
        "segment_type": "small" if run[0].is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": True,
        "frames": [],
        "blocks": entries,
    }


def _entry(address: int, size: int, requested: int, state: str) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}
