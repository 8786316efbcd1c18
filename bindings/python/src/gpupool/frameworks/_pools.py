# SPDX-License-Identifier: Apache-2.0
"""What every allocation looks up: the device's pool, and what the pool calls the stream."""

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
            "gpupool cannot serve the per-thread default stream, which is another one in each thread; create a stream "
            "for each thread"
        )
    return 0 if number == _LEGACY else number


def free_last(device: int, address: int, stream: StreamLike) -> None:
    """Frees on a stream that may be destroyed afterwards, of which its library tells nobody."""
    pool, number = pool_of(device), plain(stream)
    pool.free(address, number)
    if number:
        with suppress(InvalidArgumentError):  # it is capturing a graph
            pool.park_stream(number)


def release_streams_before_they_end(kind: Any, identify: Callable[[Any], tuple[int, int]]) -> None:
    """Makes the destructor of another library's class of streams release each from the pool first, which must not be
    asked about a stream that is no more. identify: the device and number of a stream, which it may not have. Once
    done, it stays."""
    destroy = kind.__del__
    if getattr(destroy, "__module__", None) == __name__:
        return

    def release_and_destroy(stream: Any) -> None:
        # Nothing is handed out any more when the driver is going, and in a forked child.
        with suppress(AttributeError, Error):
            device, number = identify(stream)
            if (number or 0) > _PER_THREAD and not sys.is_finalizing():
                pool_of(device).release_stream(number)
        destroy(stream)

    kind.__del__ = release_and_destroy
