# SPDX-License-Identifier: Apache-2.0
"""What notebooks show."""

from xml.etree import ElementTree

import gpupool


def texts(shown: str) -> list[str]:
    """Of the table's cells; raises for what is not well-formed."""
    return [
        text
        for each in ElementTree.fromstring(shown.replace("&nbsp;", " ")).iter()
        if (text := (each.text or "").strip())
    ]


def test_a_pool() -> None:
    with gpupool.Pool("sim", limit="64MiB") as pool, pool.alloc("2MiB"):
        found = texts(pool._repr_html_())
        assert found[0] == repr(pool)
        assert found[found.index("reserved") :][:3] == ["reserved", "2 MiB", "2 MiB"]
        assert "of the limit" in found
        assert "3.1 %" in pool._repr_html_()
    assert texts(pool._repr_html_()) == [repr(pool)]


def test_records() -> None:
    with gpupool.Pool("sim") as pool, pool.alloc(1000) as buffer:
        found = texts(pool.stats()._repr_html_())
        assert {"Stats", "StatGroup", "reserved_bytes", "2 MiB", "1 KiB"} <= set(found)
        found = texts(pool.snapshot()._repr_html_())
        assert {"Snapshot", "segments: 1", str(buffer.address), "live", "2 MiB"} <= set(found)
    assert "sim" in gpupool.device_info("sim")._repr_html_().lower()
