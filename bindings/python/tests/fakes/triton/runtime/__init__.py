# SPDX-License-Identifier: Apache-2.0
"""Triton: see triton."""

from types import SimpleNamespace

from . import _allocation

__all__ = ["_allocation", "driver"]

driver = SimpleNamespace(active=SimpleNamespace(get_current_device=lambda: 0, get_current_stream=lambda device: 0x70))
