# SPDX-License-Identifier: Apache-2.0
"""What was compiled is what docs/api.json promises, and the classes say the same."""

import json
from pathlib import Path
from typing import Any

import pytest

import gpupool
from gpupool import _enums, _status_errors, _structs
from gpupool._native import ffi, lib

CONTRACT = json.loads((Path(__file__).resolve().parents[3] / "docs/api.json").read_text(encoding="utf-8"))


def ids(items: list[Any]) -> list[str]:
    return [item["name"] for item in items]


@pytest.mark.parametrize("struct", CONTRACT["structs"], ids=ids(CONTRACT["structs"]))
def test_struct(struct: dict[str, Any]) -> None:
    assert ffi.sizeof(struct["name"]) == struct["size"]
    fields = dict(ffi.typeof(struct["name"]).fields)
    found = {name: (field.offset, ffi.sizeof(field.type)) for name, field in fields.items()}
    assert found == {field["name"]: (field["offset"], field["size"]) for field in struct["fields"]}


@pytest.mark.parametrize("enum", CONTRACT["enums"], ids=ids(CONTRACT["enums"]))
def test_enum(enum: dict[str, Any]) -> None:
    assert ffi.sizeof(enum["name"]) == 4
    values = {value["name"]: value["value"] for value in enum["values"]}
    assert {name: getattr(lib, name) for name in values} == values
    name = "".join(part.capitalize() for part in enum["name"].removeprefix("gpupool_").removesuffix("_t").split("_"))
    numbers = sorted(value for name, value in values.items() if not name.endswith("_FORCE32"))
    assert sorted(getattr(_enums, name)) == numbers


@pytest.mark.parametrize("define", CONTRACT["defines"], ids=ids(CONTRACT["defines"]))
def test_define(define: dict[str, Any]) -> None:
    assert getattr(lib, define["name"]) == define["value"]
    assert getattr(_enums, define["name"].removeprefix("GPUPOOL_")) == define["value"]


def test_functions() -> None:
    for function in CONTRACT["functions"]:
        compiled = ffi.typeof(ffi.addressof(lib, function["name"]))
        assert len(compiled.args) == len(function["params"])


def test_fields_arrive_where_they_belong() -> None:
    """A struct full of different numbers becomes a class with the same."""
    stats = ffi.new("gpupool_stats_t *")
    numbers = ffi.cast("uint64_t *", stats)
    for i in range(ffi.sizeof("gpupool_stats_t") // 8):
        numbers[i] = i
    stats.share_state = gpupool.ShareState.SHARED  # which is an enum in Python
    made = _structs.Stats._of(stats)
    for path in ("limit_bytes", "all.requested_bytes.current", "small.chunks.total_freed", "driver.host_wait.count"):
        expected: Any = stats
        found: Any = made
        for name in path.split("."):
            expected, found = getattr(expected, name), getattr(found, name)
        assert found == expected > 0


def test_every_status_has_an_exception() -> None:
    for status in gpupool.Status:
        if status != gpupool.Status.SUCCESS:
            kind = gpupool.Error._classes[status]
            assert getattr(_status_errors, kind.__name__) is kind
            assert getattr(gpupool, kind.__name__) is kind
