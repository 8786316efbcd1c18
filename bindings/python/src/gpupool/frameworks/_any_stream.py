# SPDX-License-Identifier: Apache-2.0
"""Memory for frameworks that do not say on which stream they use it."""

from __future__ import annotations

import os

from .._enums import STREAM_UNKNOWN
from .._stream import Stream
from ._pools import pool_of

_own_streams: dict[int, Stream] = {}
# They belong to the pools of the process that created them.
os.register_at_fork(after_in_child=_own_streams.clear)


def malloc(device: int, size: int) -> int:
    """The address of size bytes that any stream may use at once: they are allocated on a stream of our own, which has
    passed everything it had to wait for. Raises as Pool.malloc."""
    pool = pool_of(device)
    stream = _own_streams.get(device)
    if stream is None:
        stream = _own_streams.setdefault(device, pool.stream())
    address = pool.malloc(size, stream)
    stream.synchronize()
    return address


def free(device: int, address: int) -> None:
    """Frees it. The pool reuses it when all streams that it has seen have passed the work now queued on them, and with
    the legacy default stream all streams that wait for each other through it. Raises as Pool.free."""
    pool = pool_of(device)
    pool.record_stream(address, 0)
    pool.free(address, STREAM_UNKNOWN)
