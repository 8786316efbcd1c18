# SPDX-License-Identifier: Apache-2.0
"""For pytest: tests that say how much memory of a pool they may hold.

    @pytest.mark.gpupool_limit("2 GiB")    no pool has more live at once during the test, fixtures' blocks included
    @pytest.mark.gpupool_no_leaks          what the test allocates is free when it ends
    @pytest.mark.gpupool_no_leaks("1 MiB") but for what each call site may keep, such as a library's workspace

Installing gpupool is enough: pytest finds this plug-in. The failure names the call sites that hold the memory. Each
marked test is recorded, so it cannot run while the program records itself. Since 0.2.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import takewhile
from typing import Any

import pytest

from ._arguments import parse_size
from ._html import in_words
from ._observed import Observed

_SITES = 5
_FRAMES = 8
"""Call sites, and frames of each, in a failure."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpupool_limit(size): the test fails if a pool has more than this live at once")
    config.addinivalue_line(
        "markers", "gpupool_no_leaks(size=0): the test fails if more than this of a call site outlives it"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    limit = _size_of(item, "gpupool_limit")
    kept = _size_of(item, "gpupool_no_leaks", 0)
    if limit is None and kept is None:
        return (yield)
    seen = Observed()
    try:
        with seen:
            result = yield
        pools = seen.pools()
    finally:
        seen.close()
    faults = []
    for pool in pools:
        if limit is not None and pool["peak_live_bytes"] > limit:
            held = f"{in_words(pool['peak_live_bytes'])} were live at once, more than the limit of {in_words(limit)}"
            faults.append(_told(pool, held, pool["at_peak"]))
        left = [holder for holder in pool["at_end"] if not holder["before"] and holder["bytes"] > (kept or 0)]
        if kept is not None and left:
            held = f"{in_words(sum(holder['bytes'] for holder in left))} that the test allocated are live at its end"
            faults.append(_told(pool, held, left))
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)
    return result


def _size_of(item: pytest.Item, name: str, default: int | None = None) -> int | None:
    """What a mark says; None without it."""
    marker = item.get_closest_marker(name)
    if marker is None:
        return None
    if default is not None and not marker.args and not marker.kwargs:
        return default
    if len(marker.args) != 1 or marker.kwargs:
        raise pytest.UsageError(f'{name} takes one size, such as @pytest.mark.{name}("2 GiB")')
    return parse_size(marker.args[0])


def _own_frames(stack: str) -> list[str]:
    """The innermost ones, up to pytest's own."""
    return list(takewhile(lambda frame: "/_pytest/" not in frame, stack.splitlines()))[:_FRAMES]


def _told(pool: dict[str, Any], held: str, holders: list[dict[str, Any]]) -> str:
    lines = [f"gpupool: pool {pool['pool']} on {pool['device']}: {held}, by"]
    for holder in holders[:_SITES]:
        blocks = f"{holder['blocks']} block{'s' * (holder['blocks'] != 1)}"
        tag = f', tag "{holder["tag"]}"' if holder["tag"] else ""
        when = ", from before the test" if holder["before"] else ""
        lines.append(f"  {in_words(holder['bytes'])} in {blocks}{tag}{when}")
        lines += [f"    {frame}" for frame in _own_frames(holder["stack"])]
    if len(holders) > _SITES:
        lines.append(f"  and {len(holders) - _SITES} more call sites")
    return "\n".join(lines)
