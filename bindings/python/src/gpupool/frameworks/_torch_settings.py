# SPDX-License-Identifier: Apache-2.0
"""PYTORCH_ALLOC_CONF, when PyTorch's own allocator is not there to read it: its limit applies, and one warning names
the settings that mean nothing to gpupool."""

from __future__ import annotations

import os
import re
import warnings

from .._pool import _default_pools

_IGNORED = (
    "expandable_segments",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "large_segment_size_mb",
    "throw_on_cudamalloc_oom",
)
_OFF = ("False", "0", "0.0")


def heed_settings() -> None:
    """Applies per_process_memory_fraction to the existing default pools and, through the environment, to future ones,
    if it is lower than their limit; warns of settings that have no effect."""
    text = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF") or ""
    given = dict(re.findall(r"(\w+)\s*:\s*(\[[^]]*\]|[^,\s]+)", text))
    if "per_process_memory_fraction" in given:
        _limit(float(given["per_process_memory_fraction"]))
    ignored = [name for name in _IGNORED if given.get(name, "False") not in _OFF]
    if ignored:
        warnings.warn(
            f"gpupool serves PyTorch's GPU memory, so that these settings of PYTORCH_ALLOC_CONF do nothing: "
            f"{', '.join(ignored)}",
            RuntimeWarning,
            stacklevel=2,
        )


def _limit(fraction: float) -> None:
    if fraction >= 1:
        return
    for pool in list(_default_pools.values()):
        limit = max(int(fraction * pool.device_info().total_bytes), 1)
        known = pool.stats().limit_bytes
        if not known or limit < known:
            pool.set_limit(limit)
    if fraction <= 0:
        os.environ["GPUPOOL_LIMIT"] = "1"  # 0 means no limit
    elif fraction < _share(os.environ.get("GPUPOOL_FRACTION") or "1"):
        os.environ["GPUPOOL_FRACTION"] = repr(fraction)


def _share(text: str) -> float:
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)
