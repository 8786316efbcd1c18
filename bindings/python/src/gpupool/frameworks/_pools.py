# SPDX-License-Identifier: Apache-2.0
"""What every allocation looks up: the device's pool, and what the pool calls the stream."""

from __future__ import annotations

import os

from .._pool import Pool, default_pool
from .._stream import StreamLike, stream_number

_LEGACY, _PER_THREAD = 1, 2

_known: dict[int, Pool] = {}
# A forked child has pools of its own.
os.register_at_fork(after_in_child=_known.clear)


def pool_of(device: int) -> Pool:
    """default_pool(device), faster."""
    pool = _known.get(device)
    if pool is None:
        pool = _known[device] = default_pool(device)
    return pool


def plain(stream: StreamLike) -> int:
    """The number by which the pool knows a stream. Raises ValueError for the per-thread default stream."""
    number = stream_number(stream)
    if number == _PER_THREAD:
        raise ValueError(
            "gpupool can not serve the per-thread default stream, which is another one in each thread; create a stream "
            "for each thread"
        )
    return 0 if number == _LEGACY else number
