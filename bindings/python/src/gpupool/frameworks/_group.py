# SPDX-License-Identifier: Apache-2.0
"""The group of processes that install() joins, for the default pools of all devices."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from .._arguments import integer, size_or_share
from .._pool import _default_pools
from .._share import share_info
from .._status_errors import UnavailableError

_VARIABLES = ("GPUPOOL_SHARE", "GPUPOOL_SHARE_GUARANTEED", "GPUPOOL_SHARE_PRIORITY")


class Group(NamedTuple):
    """The new values of the environment's variables; "": as they are."""

    share: str = ""
    guaranteed: str = ""
    priority: str = ""

    def __str__(self) -> str:
        words = f'the group "{self.share}"' if self.share else "no group"
        if self.guaranteed:
            words += (
                f" with {self.guaranteed if self.guaranteed.endswith('%') else self.guaranteed + ' bytes'} guaranteed"
            )
        return words + (f" at priority {self.priority}" if self.priority else "")


def parse_group(share: str | None, guaranteed: int | str | None, priority: int | None) -> Group:
    """The group from install()'s arguments. Raises ValueError, TypeError."""
    if share is None:
        if guaranteed is not None or priority is not None:
            raise ValueError("guaranteed and priority are a member's: give share, the group, as well")
        return Group()
    with suppress(UnavailableError):
        share_info(share, "sim")  # the library says which names there are, and touches no GPU for that
    try:
        size, part = (0, 0.0) if guaranteed is None else size_or_share("guaranteed", guaranteed)
        level = "" if priority is None else str(integer("priority", priority, -8, 8))
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return Group(
        share,
        f"{part * 100:.10g}%" if part else str(size) if size else "",
        level,
    )


def apply_group(group: Group) -> None:
    """Makes future default pools join the group. Raises RuntimeError if there is one that has not joined."""
    if not group.share:
        return
    values = {name: value for name, value in zip(_VARIABLES, group, strict=True) if value}
    if _default_pools and any(os.environ.get(name, "") != value for name, value in values.items()):
        raise RuntimeError(
            f"{group} comes too late: device {min(_default_pools)} has its default pool already, and a pool joins when "
            "it is created. Call gpupool.install before, or set GPUPOOL_SHARE in the environment"
        )
    os.environ.update(values)


def kept_group() -> dict[str, str]:
    """The variables as they are now, for an undo."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def restore_group(kept: dict[str, str]) -> None:
    """Restores these values."""
    for name in _VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(kept)
