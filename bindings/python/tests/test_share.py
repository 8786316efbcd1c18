# SPDX-License-Identifier: Apache-2.0
"""Pools that share a device with other processes, and their group from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gpupool

GIB = 1 << 30


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_SHARE_DIR", str(tmp_path))


def test_a_pool_of_a_group() -> None:
    with gpupool.Pool("sim", share="team", guaranteed_bytes=GIB, priority=2, share_wait=0.001) as pool:
        assert pool.stats().share_state == gpupool.ShareState.SHARED
        group = gpupool.share_info("team", device="sim")
        assert group.share.members == 1
        assert group.share.used_bytes == GIB
        (member,) = group.members
        assert (member.guaranteed_bytes, member.priority) == (GIB, 2)
        gpupool.share_set("member_priority", -2, member.slot, share="team", device="sim")
        assert gpupool.share_info("team", device="sim").members[0].priority == -2
        gpupool.share_set("limit", "2GiB", share="team", device="sim")
        with pytest.raises(gpupool.OverLimitError):
            pool.share_request(3 * GIB)
        assert gpupool.share_repair("team", device="sim") == 0
        pool.allow_sleep("drop", hold_mallocs=True)
        assert pool.wake().pools == 0
    with pytest.raises(gpupool.UnavailableError):
        gpupool.share_info("none", device="sim")


def test_sharing_is_refused_in_words() -> None:
    for wrong in ({"share": "a/b"}, {"share": "team", "priority": 9}, {"guaranteed_bytes": 1}):
        with pytest.raises((gpupool.InvalidArgumentError, ValueError)):
            gpupool.Pool("sim", **wrong)


def test_an_empty_group_is_none_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_SHARE", "team")
    with gpupool.Pool("sim", share="") as pool:
        assert pool.stats().share_state == gpupool.ShareState.OFF
        with pytest.raises(gpupool.UnavailableError):
            pool.share_request(1)


def test_what_pytorch_calls_takes_from_the_group(tmp_path: Path) -> None:
    """The functions that the shim and the pluggable interface call, and those of tags, as gpupool.install("torch",
    share="team") leaves the environment."""
    program = f"""
        import ctypes, gpupool
        from gpupool.frameworks._group import apply_group, parse_group
        from gpupool.frameworks._torch_shim import torch_library_path
        apply_group(parse_group("team", None, 2))
        library = ctypes.CDLL(str(torch_library_path()))
        library.gpupool_torch_alloc.restype = ctypes.c_void_p
        library.gpupool_torch_alloc.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        assert library.gpupool_torch_alloc({GIB}, 0, None)
        (member,) = gpupool.share_info("team", "sim").members
        assert (member.reserved_bytes, member.priority) == ({GIB}, 2)
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        alloc, free = function(), ctypes.c_void_p()
        assert library.gpupool_torch_tag(b"weights", 0, ctypes.byref(alloc), ctypes.byref(free)) == 0
        assert alloc({GIB}, 0, None)
        (member,) = gpupool.share_info("team", "sim").members
        assert member.reserved_bytes == {2 * GIB}
    """
    subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "GPUPOOL_SHARE_DIR": str(tmp_path)},
        check=True,
        timeout=60,
    )
