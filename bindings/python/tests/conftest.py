# SPDX-License-Identifier: Apache-2.0
"""Pools on the simulated device, which must not have found fault with anything in the end."""

import os
import sys
from collections.abc import Iterator

os.environ["GPUPOOL_BACKEND"] = "sim"

import pytest

import gpupool

MIB = 1 << 20


@pytest.fixture
def pool() -> Iterator[gpupool.Pool]:
    """On device 0, with data."""
    before = gpupool.sim.faults(0)
    with gpupool.Pool(0) as made:
        yield made
    assert gpupool.sim.faults(0) == before


@pytest.fixture
def small_pool() -> Iterator[gpupool.Pool]:
    """On device 1, which has 64 MiB."""
    gpupool.sim.configure(1, capacity_bytes=64 * MIB)
    with gpupool.Pool(1) as made:
        yield made
    gpupool.sim.script("", 1)


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What was reported to sys.unraisablehook."""
    found: list[BaseException] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: found.append(what.exc_value))
    return found
