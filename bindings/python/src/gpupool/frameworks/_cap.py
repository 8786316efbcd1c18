# SPDX-License-Identifier: Apache-2.0
"""The limit that install() takes, for the default pools of all devices."""

from __future__ import annotations

import os
from typing import NamedTuple

from .._arguments import size_or_share
from .._pool import _default_pools


class Cap(NamedTuple):
    """A part of the device's memory, or bytes; both 0: no limit."""

    fraction: float = 0.0
    limit_bytes: int = 0

    def __str__(self) -> str:
        if self.fraction:
            return f"{self.fraction * 100:g}%"
        return f"{self.limit_bytes} bytes" if self.limit_bytes else "no limit"


def parse_cap(cap: str | float | None) -> Cap:
    """ "40%", "8GiB", "8GB", a number of bytes, or a fraction of up to 1.0 as a float. Raises ValueError."""
    if cap is None or cap == "":
        return Cap()
    try:
        limit_bytes, fraction = size_or_share("cap", cap)
    except (TypeError, ValueError, OverflowError):
        limit_bytes, fraction = 0, 0.0
    if not limit_bytes and not fraction:
        raise ValueError(f'cap is {cap!r}; it can be "40%", "8GiB", a number of bytes, or a float of up to 1.0')
    return Cap(fraction, limit_bytes)


def apply_cap(cap: Cap) -> None:
    """Limits the default pools that there are, and by the environment those to come, so that no device is touched
    before it is used. Raises OverLimitError if one of them holds more already."""
    if cap == Cap():
        return
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
