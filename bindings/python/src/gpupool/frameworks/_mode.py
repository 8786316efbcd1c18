# SPDX-License-Identifier: Apache-2.0
"""The mode that install() takes, for the default pools of all devices."""

from __future__ import annotations

import os
from collections.abc import Callable

from .._pool import _default_pools

_NAME = "GPUPOOL_MODE"
_MODES = ("auto", "vmm", "driver")


def check_mode(mode: str | None) -> None:
    """Raises ValueError, and RuntimeError if there is a default pool already, whose mode cannot change."""
    if mode is None:
        return
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; there are {', '.join(_MODES)}")
    if _default_pools and os.environ.get(_NAME, "") != mode:
        raise RuntimeError(
            f'mode "{mode}" comes too late: device {min(_default_pools)} has its default pool already. Call '
            "gpupool.install before, or set GPUPOOL_MODE in the environment"
        )


def apply_mode(mode: str | None) -> Callable[[], None]:
    """Sets the mode of future default pools; returns a function that undoes it."""
    before = os.environ.get(_NAME)
    if mode is not None:
        os.environ[_NAME] = mode

    def undo() -> None:
        if before is None:
            os.environ.pop(_NAME, None)
        else:
            os.environ[_NAME] = before

    return undo
