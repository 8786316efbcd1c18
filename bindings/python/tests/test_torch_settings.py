# SPDX-License-Identifier: Apache-2.0
"""PYTORCH_ALLOC_CONF in the pluggable way."""

import os
import warnings

import pytest

from gpupool.frameworks import torch
from gpupool.frameworks._torch_settings import heed_settings


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "GPUPOOL_FRACTION", "GPUPOOL_LIMIT"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
@pytest.mark.parametrize(
    ("before", "setting", "after"),
    [("", "0.5", "0.5"), ("0.25", "0.5", "0.25"), ("0.75", "0.5", "0.5"), ("75%", "0.5", "0.5"), ("", "1", "")],
)
def test_the_lower_fraction_holds(
    monkeypatch: pytest.MonkeyPatch, name: str, before: str, setting: str, after: str
) -> None:
    monkeypatch.setenv("GPUPOOL_FRACTION", before)
    monkeypatch.setenv(name, f"pinned_num_register_threads:8, per_process_memory_fraction : {setting}")
    heed_settings()
    assert os.environ["GPUPOOL_FRACTION"] == after


def test_none_at_all_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.0")
    heed_settings()
    assert os.environ["GPUPOOL_LIMIT"] == "1"


def test_what_does_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYTORCH_ALLOC_CONF", "expandable_segments:True,roundup_power2_divisions:[256:1,>:4],max_split_size_mb:64"
    )
    with pytest.warns(
        RuntimeWarning, match="nothing: expandable_segments, max_split_size_mb, roundup_power2_divisions$"
    ):
        heed_settings()
    monkeypatch.setenv(
        "PYTORCH_ALLOC_CONF",
        "expandable_segments_reserve:40G,throw_on_cudamalloc_oom:True,expandable_segments_reserve_by_class:[a:0.5],"
        "pinned_free_catch_all:True,large_segment_size_mb:12",
    )
    with pytest.warns(
        RuntimeWarning,
        match="nothing: expandable_segments_reserve, expandable_segments_reserve_by_class, large_segment_size_mb, "
        "throw_on_cudamalloc_oom$",
    ):
        heed_settings()
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:False,backend:native")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed_settings()


def test_the_choice_of_the_way_in_is_0_or_1(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in (("", True), ("1", True), ("0", False)):
        monkeypatch.setenv("GPUPOOL_TORCH_SHIM", value)
        assert torch._wants_shim() is expected
    monkeypatch.setenv("GPUPOOL_TORCH_SHIM", "maybe")
    with pytest.raises(ValueError, match='GPUPOOL_TORCH_SHIM is "maybe", not 0 or 1'):
        torch._wants_shim()
