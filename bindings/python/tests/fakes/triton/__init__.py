# SPDX-License-Identifier: Apache-2.0
"""Triton: its allocator, and the driver that knows the current stream."""

from typing import Any

from . import runtime


def set_allocator(allocator: Any) -> None:
    runtime._allocation._allocator.set(allocator)
