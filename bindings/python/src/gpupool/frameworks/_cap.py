# SPDX-License-Identifier: Apache-2.0
"""The limit that install() takes, for the default pools of all devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from .._arguments import size_or_share
from .._place import Place, place
from .._pool import _before_default, _default_pools
from .._status_errors import ForkedError

AUTO = "auto"
_NAME = "GPUPOOL_CAP"


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


class _State:
    """What this process adds to GPUPOOL_CAP."""

    given: str = ""
    """What the variable said before."""
    written: str = ""
    caps: Mapping[str, Cap] = MappingProxyType({})
    """By owner. Each may raise its own; the smallest holds."""


def apply_cap(cap: Cap, owner: str = "program") -> None:
    """Limits the existing default pools and, through the environment, future pools and child processes, so that no
    device is touched before it is used. Takes the place of the owner's earlier cap, and of nothing else. Raises
    OverLimitError if a pool already holds more."""
    if cap == _State.caps.get(owner, Cap()):
        return
    back = keep_caps()
    text = os.environ.get(_NAME, "")
    if text != _State.written:
        _State.given = text
    _State.caps = {**_State.caps, owner: cap}
    parts = [part for part in parts_of(_State.given) if part != AUTO]
    parts += [_text_of(each) for each in _State.caps.values() if each != Cap()]
    _State.written = os.environ[_NAME] = ",".join(parts) or _State.given
    try:
        heed_caps()
    except BaseException:
        back()
        raise


def heed_caps() -> None:
    """Makes the existing default pools heed the environment as it is now. Raises OverLimitError."""
    for pool in list(_default_pools.values()):
        with suppress(ForkedError):  # the parent's
            pool.set_limit(pool.stats().own_limit_bytes)


def keep_caps() -> Callable[[], None]:
    """A function that restores what the caps are now."""
    environment = os.environ.get(_NAME)
    state = _State.given, _State.written, _State.caps

    def back() -> None:
        _State.given, _State.written, _State.caps = state
        if environment is None:
            os.environ.pop(_NAME, None)
        else:
            os.environ[_NAME] = environment
        heed_caps()

    return back


def parts_of(text: str) -> list[str]:
    """GPUPOOL_CAP is one cap, or several with commas between them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _text_of(cap: Cap) -> str:
    """The library reads it to the last bit."""
    if not cap.fraction:
        return str(cap.limit_bytes)
    texts = [f"{cap.fraction * 100:.{digits}g}" for digits in (15, 16, 17)]
    return min(texts, key=lambda text: abs(float(text) / 100 - cap.fraction)) + "%"


def adopt_place() -> Place:
    """See gpupool.launch.adopt."""
    found = _place_with_gpu()
    apply_cap(_cap_of(found), "launcher")
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
    apply_cap(Cap(limit_bytes=1), "launcher")  # no limit is 0


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
