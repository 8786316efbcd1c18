# SPDX-License-Identifier: Apache-2.0
"""The statistics under PyTorch's names, and as its table."""

from __future__ import annotations

from collections.abc import Callable

from ._structs import Stat, StatGroup, Stats

# PyTorch's name of a quantity, and the field of StatGroup that it is here.
_QUANTITIES = {
    "allocation": "allocated_blocks",
    "segment": "chunks",
    "active": "active_blocks",
    "allocated_bytes": "allocated_bytes",
    "reserved_bytes": "reserved_bytes",
    "active_bytes": "active_bytes",
    "requested_bytes": "requested_bytes",
}
# What this pool does not have.
_ABSENT = ("inactive_split", "inactive_split_bytes")
_METRICS = {"current": "current", "peak": "peak", "allocated": "total_allocated", "freed": "total_freed"}


def _groups(stats: Stats) -> dict[str, StatGroup]:
    return {"all": stats.all, "large_pool": stats.large, "small_pool": stats.small}


def memory_stats(stats: Stats) -> dict[str, int]:
    """The 122 keys of PyTorch 2.11, sorted."""
    driver = stats.driver
    keys = {
        "num_alloc_retries": stats.retries,
        "num_ooms": stats.failed_mallocs,
        "max_split_size": -1,
        "num_sync_all_streams": driver.host_wait.count,
        "num_device_alloc": driver.create.count + driver.malloc.count,
        "num_device_free": driver.release.count + driver.free.count,
    }
    for metric, field in _METRICS.items():
        for group_name, group in _groups(stats).items():
            for name, quantity in _QUANTITIES.items():
                keys[f"{name}.{group_name}.{metric}"] = getattr(getattr(group, quantity), field)
            for name in _ABSENT:
                keys[f"{name}.{group_name}.{metric}"] = 0
        keys[f"oversize_allocations.{metric}"] = 0
        keys[f"oversize_segments.{metric}"] = 0
    return dict(sorted(keys.items()))


def _bytes(value: int, reference: int) -> str:
    """In the unit that suits the reference."""
    power = 0
    while reference >= 768 * 1024 ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    return f"{value // 1024**power:6d} {_UNITS[power]:<3}"


def _count(value: int, reference: int) -> str:
    return f"{value // 1000:6d} K  " if reference >= 750_000 else f"{value:6d}    "


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_ROWS = (
    ("Allocated memory", "allocated_bytes", _bytes),
    ("Active memory", "active_bytes", _bytes),
    ("Requested memory", "requested_bytes", _bytes),
    ("GPU reserved memory", "reserved_bytes", _bytes),
    ("Allocations", "allocated_blocks", _count),
    ("Active allocs", "active_blocks", _count),
    ("GPU reserved chunks", "chunks", _count),
)
_WIDTH = 75


def memory_summary(stats: Stats, abbreviated: bool) -> str:
    """A table of 75 columns between bars."""
    double, single = f"|{'=' * _WIDTH}|", f"|{'-' * _WIDTH}|"
    lines = [
        double,
        f"|{f'gpupool memory summary, device ID {stats.device}':^{_WIDTH}}|",
        single,
        f"|{f'CUDA OOMs: {stats.failed_mallocs}':^37}|{f'CUDA malloc retries: {stats.retries}':^37}|",
        double,
        f"| {'Metric':^21} | {'Cur Usage':^10} | {'Peak Usage':^10} | {'Tot Alloc':^10} | {'Tot Freed':^10} |",
    ]
    for title, quantity, write in _ROWS:
        parts = {title: stats.all}
        if not abbreviated:
            parts |= {"      from large pool": stats.large, "      from small pool": stats.small}
        lines.append(single)
        lines += [
            _row(name, getattr(group, quantity), getattr(stats.all, quantity), write) for name, group in parts.items()
        ]
    cached, releasable = (_bytes(value, value).strip() for value in (stats.cached_bytes, stats.releasable_bytes))
    lines += [double, f"|{f'Cached: {cached}, of which empty_cache gives back {releasable}':^{_WIDTH}}|", double]
    return "\n".join(lines) + "\n"


def _row(name: str, stat: Stat, reference: Stat, write: Callable[[int, int], str]) -> str:
    """A column's figures for all, large and small have the unit of the first."""
    cells = (write(getattr(stat, field), getattr(reference, field)) for field in _METRICS.values())
    return f"| {name:<21} | {' | '.join(cells)} |"
