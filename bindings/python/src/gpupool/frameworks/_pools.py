# SPDX-License-Identifier: Apache-2.0
"""The lookup of a device's pool, which every allocation makes, and the end of other libraries' streams."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._error import Error
from .._pool import Pool, default_pool
from .._status_errors import InvalidArgumentError
from .._stream import StreamLike, stream_number

if TYPE_CHECKING:
    from collections.abc import Callable

# 0 and 1 are the legacy default stream and 2 is the per-thread one; nobody destroys them.
_LAST_DEFAULT = 2

_known: dict[int, Pool] = {}
# A forked child has its own pools.
os.register_at_fork(after_in_child=_known.clear)


def pool_of(device: int) -> Pool:
    """default_pool(device), faster."""
    pool = _known.get(device)
    if pool is None:
        pool = _known[device] = default_pool(device)
    return pool


def free_last(device: int, address: int, stream: StreamLike) -> None:
    """Frees on a stream that its library may later destroy without notice."""
    pool, number = pool_of(device), stream_number(stream)
    pool.free(address, number)
    if number > _LAST_DEFAULT:
        with suppress(InvalidArgumentError):  # the stream is capturing a graph
            pool.park_stream(number)


def release_streams_before_they_end(kind: Any, identify: Callable[[Any], tuple[int, int]]) -> None:
    """Makes the destructor of another library's stream class release the stream from the pool first, because the pool
    must not query a destroyed stream. identify: returns the device and number of a stream, if it has them. This cannot
    be undone."""
    destroy = kind.__del__
    if getattr(destroy, "__module__", None) == __name__:
        return

    def release_and_destroy(stream: Any) -> None:
        # When the driver is going, or in a forked child, the pool hands out no more memory.
        with suppress(AttributeError, Error):
            device, number = identify(stream)
            if (number or 0) > _LAST_DEFAULT and not sys.is_finalizing():
                pool_of(device).release_stream(number)
        destroy(stream)

    kind.__del__ = release_and_destroy
