# SPDX-License-Identifier: Apache-2.0
"""The limit that install() takes, for the default pools of all devices."""

from __future__ import annotations

import os
from typing import NamedTuple

from .._arguments import size_or_share
from .._place import Place, place
from .._pool import _before_default, _default_pools

AUTO = "auto"


class Cap(NamedTuple):
    """A part of the device's memory, or bytes; both 0: no limit."""

    fraction: float = 0.0
    limit_bytes: int = 0

    def __str__(self) -> str:
        if self.fraction:
            return f"{self.fraction * 100:g}%"
        return f"{self.limit_bytes} bytes" if self.limit_bytes else "no limit"


def parse_cap(cap: str | float | None) -> Cap:
    """ "40%", "8GiB", "8GB", a number of bytes, a fraction of up to 1.0 as a float, or "auto", the share that the
    launcher gave. Raises ValueError; RuntimeError if the launcher gave none."""
    if cap is None or cap == "":
        return Cap()
    if cap == AUTO:
        return _cap_of(_place_with_gpu())
    try:
        limit_bytes, fraction = size_or_share("cap", cap)
    except (TypeError, ValueError, OverflowError):
        limit_bytes, fraction = 0, 0.0
    if not limit_bytes and not fraction:
        raise ValueError(f'cap is {cap!r}; it can be "40%", "8GiB", 0.4, bytes, or "auto"')
    return Cap(fraction, limit_bytes)


def apply_cap(cap: Cap) -> None:
    """Limits the existing default pools and, through the environment, future ones, so that no device is touched before
    it is used, and stops waiting for a place. Raises OverLimitError if one of them already holds more."""
    if cap == Cap():
        return
    _before_default.clear()
    for pool in list(_default_pools.values()):
        if cap.fraction:
            pool.set_per_process_memory_fraction(cap.fraction)
        else:
            pool.set_limit(cap.limit_bytes)
    for name in ("GPUPOOL_FRACTION", "GPUPOOL_LIMIT"):
        os.environ.pop(name, None)
    if cap.fraction:
        os.environ["GPUPOOL_FRACTION"] = repr(cap.fraction)
    else:
        os.environ["GPUPOOL_LIMIT"] = str(cap.limit_bytes)


def adopt_place() -> Place:
    """See gpupool.launch.adopt."""
    found = _place_with_gpu()
    apply_cap(_cap_of(found))
    _before_default.clear()
    return found


def await_place() -> None:
    """Adopts the place when somebody asks for the first default pool, because Ray says what a worker has only when a
    task begins."""
    _before_default[:] = [adopt_place]


def settle_place() -> None:
    """Adopts the awaited place before a framework gets pools that Python does not ask for. In a worker that Ray has
    given no GPU these pools get nothing, and a task with a part of a GPU may follow."""
    if not _before_default:
        return
    if place().share:
        adopt_place()
        return
    awaited = list(_before_default)
    apply_cap(Cap(limit_bytes=1))  # no limit is 0
    _before_default[:] = awaited


def _place_with_gpu() -> Place:
    found = place()
    if not found.share:
        raise RuntimeError(
            "Ray has given this worker no GPU, and so gpupool has no memory for it: ask for a part of one, as with "
            "@ray.remote(num_gpus=0.25)"
        )
    return found


def _cap_of(found: Place) -> Cap:
    return Cap(fraction=found.share) if found.share < 1 else Cap()
