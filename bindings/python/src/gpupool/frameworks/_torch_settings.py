# SPDX-License-Identifier: Apache-2.0
"""PYTORCH_ALLOC_CONF, where PyTorch's own allocator is not there to read it: its limit is kept, and what means nothing
to gpupool is named once."""

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
)
_OFF = ("False", "0", "0.0")


def heed_settings() -> None:
    """Puts per_process_memory_fraction on the default pools there are and, by the environment, on those to come, where
    it is lower than their limit; warns of settings that do nothing."""
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
        os.environ["GPUPOOL_LIMIT"] = "1"  # no limit is 0
    elif fraction < _share(os.environ.get("GPUPOOL_FRACTION") or "1"):
        os.environ["GPUPOOL_FRACTION"] = repr(fraction)


def _share(text: str) -> float:
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)
