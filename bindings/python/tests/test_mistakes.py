# SPDX-License-Identifier: Apache-2.0
"""Mistakes that a newcomer makes, each with an error that names the argument, the value and what is allowed; and sizes
and devices as people write them."""

from collections.abc import Callable
from typing import Any

import pytest
from conftest import MIB

import gpupool

numpy = pytest.importorskip("numpy")
Case = tuple[type[BaseException], str, Callable[[Any], object]]

MISTAKES: dict[str, Case] = {
    "fraction=50": (ValueError, r"fraction is 50; it must be a share .* up to 1", lambda p: gpupool.Pool(fraction=50)),
    "fraction='50'": (ValueError, "fraction is '50'", lambda p: gpupool.Pool(fraction="50")),
    "fraction='150%'": (ValueError, r'fraction is "150%", not a share', lambda p: gpupool.Pool(fraction="150%")),
    "fraction=None": (TypeError, "fraction is None", lambda p: gpupool.Pool(fraction=None)),  # type: ignore[arg-type]
    "limit_bytes=8e9": (
        TypeError,
        r"limit_bytes is 8000000000\.0, of type float; it must be a number of bytes .*string such as \"8GiB\"",
        lambda p: gpupool.Pool(limit_bytes=8e9),  # type: ignore[arg-type]
    ),
    "limit_bytes='40%'": (ValueError, 'limit_bytes is "40%", a share', lambda p: gpupool.Pool(limit_bytes="40%")),
    "limit_bytes='8Gb/s'": (ValueError, 'limit_bytes is "8Gb/s", not', lambda p: gpupool.Pool(limit_bytes="8Gb/s")),
    "limit_bytes=-1": (OverflowError, "limit_bytes is -1; it must be 0 to", lambda p: gpupool.Pool(limit_bytes=-1)),
    "limit=8e9": (ValueError, r"limit is 8000000000\.0; as a float it is a share", lambda p: gpupool.Pool(limit=8e9)),
    "two limits": (
        ValueError,
        "limit stands for fraction and limit_bytes",
        lambda p: gpupool.Pool(limit="40%", limit_bytes="1GiB"),
    ),
    "Pool(None)": (TypeError, "device is None", lambda p: gpupool.Pool(None)),  # type: ignore[arg-type]
    "Pool('gpu')": (ValueError, 'device is "gpu", not a device such as', lambda p: gpupool.Pool("gpu")),
    "two backends": (
        ValueError,
        "device is 'sim:1', and backend is 'cuda'",
        lambda p: gpupool.Pool("sim:1", backend="cuda"),
    ),
    "mode='fast'": (
        ValueError,
        "'fast' is no mode; there are",
        lambda p: gpupool.Pool(mode="fast"),  # type: ignore[arg-type]
    ),
    "backend=9": (ValueError, "9 is no backend", lambda p: gpupool.Pool(backend=9)),  # type: ignore[arg-type]
    "kind=None": (ValueError, "None is no kind", lambda p: gpupool.Pool(kind=None)),  # type: ignore[arg-type]
    "peers=['1']": (TypeError, "peers is '1'", lambda p: gpupool.Pool(peers=["1"])),  # type: ignore[list-item]
    "slack='10%'": (TypeError, "slack is '10%'", lambda p: gpupool.Pool(slack="10%")),  # type: ignore[arg-type]
    "default_pool('cuda:0')": (
        TypeError,
        "device is 'cuda:0', of type str; it must be the number of a device",
        lambda p: gpupool.default_pool("cuda:0"),  # type: ignore[arg-type]
    ),
    "sim.advance(1.5)": (TypeError, r"nanoseconds is 1\.5", lambda p: gpupool.sim.advance(1.5)),  # type: ignore[arg-type]
    "sim.configure('sim:1')": (
        TypeError,
        "device is 'sim:1'",
        lambda p: gpupool.sim.configure("sim:1"),  # type: ignore[arg-type]
    ),
    "alloc(-1)": (OverflowError, "size is -1; it must be 0 to", lambda p: p.alloc(-1)),
    "malloc(-1)": (OverflowError, "size is -1; it must be 0 to", lambda p: p.malloc(-1)),
    "alloc(True)": (TypeError, "size is True", lambda p: p.alloc(True)),
    "alloc(1.5)": (TypeError, r"size is 1\.5, of type float", lambda p: p.alloc(1.5)),
    "alloc('2 MiBs')": (ValueError, 'size is "2 MiBs", not a size', lambda p: p.alloc("2 MiBs")),
    "alloc('40%')": (ValueError, 'size is "40%", a share', lambda p: p.alloc("40%")),
    "alloc(10, 'x')": (TypeError, "stream is 'x', not a stream", lambda p: p.alloc(10, "x")),
    "alloc(10, None)": (TypeError, "stream is None", lambda p: p.alloc(10, None)),
    "alloc(10, -1)": (OverflowError, "stream is -1; it must be 0 to", lambda p: p.alloc(10, -1)),
    "alloc(alignment=2.0)": (TypeError, r"alignment is 2\.0", lambda p: p.alloc(10, alignment=2.0)),
    "free(buffer)": (TypeError, r"free\(\) takes an address, use buffer\.free\(\)", lambda p: p.free(p.alloc(10))),
    "free(-1)": (OverflowError, "address is -1", lambda p: p.free(-1)),
    "free('x')": (TypeError, "address is 'x'", lambda p: p.free("x")),
    "fill(300)": (ValueError, "value is 300; it must be 0 to 255", lambda p: p.alloc(10).fill(300)),
    "fill(b'x')": (TypeError, "value is b'x'", lambda p: p.alloc(10).fill(b"x")),
    "pool.fill(300)": (ValueError, "value is 300", lambda p: p.fill(p.alloc(10).address, 300, 10)),
    "copy_to_host(offset=20)": (
        ValueError,
        "offset is 20; it must be 0 to 10 in a buffer of 10 bytes",
        lambda p: p.alloc(10).copy_to_host(offset=20),
    ),
    "copy_to_host(size=-1)": (ValueError, "-1 bytes from offset 0", lambda p: p.alloc(10).copy_to_host(size=-1)),
    "copy_to_host(3)": (TypeError, "takes 1 positional argument but 2", lambda p: p.alloc(10).copy_to_host(3)),
    "download(3)": (TypeError, "takes 1 positional argument but 2", lambda p: p.alloc(10).download(3)),
    "copy_from_host('abc')": (
        TypeError,
        "data is of type str; it must be an object with a buffer, such as bytes",
        lambda p: p.alloc(10).copy_from_host("abc"),
    ),
    "upload([1])": (TypeError, "data is of type list; it must be", lambda p: p.alloc(10).upload([1])),
    "copy_to_host(out='abc')": (
        TypeError,
        "out is of type str; it must be .*, and writable",
        lambda p: p.alloc(10).copy_to_host(out="abc"),
    ),
    "copy_to_host(out=bytes)": (BufferError, "writable", lambda p: p.alloc(10).copy_to_host(out=bytes(10))),
    "trim(-1)": (OverflowError, "target_bytes is -1", lambda p: p.trim(-1)),
    "reserve(1.0)": (TypeError, r"target_bytes is 1\.0", lambda p: p.reserve(1.0)),
    "set_limit(-1)": (OverflowError, "limit is -1", lambda p: p.set_limit(-1)),
    "set_limit(1.5)": (ValueError, r"limit is 1\.5; as a float it is a share", lambda p: p.set_limit(1.5)),
    "set_limit(True)": (TypeError, "limit is True", lambda p: p.set_limit(True)),
    "p.device = 3": (AttributeError, "device", lambda p: setattr(p, "device", 3)),
    "p.limit = 3": (AttributeError, "limit", lambda p: setattr(p, "limit", 3)),
    "b.nbytes = 3": (AttributeError, "nbytes", lambda p: setattr(p.alloc(1), "nbytes", 3)),
    "parse_size('lots')": (ValueError, 'size is "lots", not a size', lambda p: gpupool.parse_size("lots")),
    "parse_size(7)": (TypeError, "size is 7", lambda p: gpupool.parse_size(7)),  # type: ignore[arg-type]
    "parse_size('40%')": (ValueError, "a share", lambda p: gpupool.parse_size("40%")),
    "parse_device('gpu:x')": (ValueError, 'device is "gpu:x"', lambda p: gpupool.parse_device("gpu:x")),
    "parse_device(0)": (TypeError, "device is 0", lambda p: gpupool.parse_device(0)),  # type: ignore[arg-type]
    "release_capture(0)": (ValueError, "capture", lambda p: p.release_capture(0)),
    "announce_capture(False)": (ValueError, "no capture is announced", lambda p: p.announce_capture(False)),
    "enable_peer(99)": (ValueError, "device", lambda p: p.enable_peer(99)),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_g_a_mistake_is_explained(pool: gpupool.Pool, what: str) -> None:
    kind, words, call = MISTAKES[what]
    pool.set_limit(64 * MIB)
    with pytest.raises(kind, match=words):
        call(pool)
    assert pool.stats().limit_bytes == 64 * MIB
    assert pool.memory_allocated() == 0


def test_g_numbers_of_any_integer_type(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(numpy.int64(10), numpy.uint8(0))
    assert (type(buffer.nbytes), buffer.nbytes, type(buffer.stream)) == (int, 10, int)
    address = pool.malloc(numpy.uint64(512))
    pool.free(numpy.uint64(address))
    assert pool.block_info(buffer.address).requested_bytes == 10
    buffer.fill(numpy.uint8(255))
    assert bytes(buffer) == b"\xff" * 10


def test_f10_sizes_in_words(pool: gpupool.Pool) -> None:
    assert gpupool.parse_size("8GiB") == 8 << 30
    assert gpupool.parse_size("8GB") == 8 * 10**9
    assert gpupool.parse_size("40%", of=1000) == 400
    assert gpupool.parse_size("512", of=1000) == 512
    with pool.alloc("2MiB") as buffer:
        assert (buffer.nbytes, type(buffer.nbytes)) == (2 * MIB, int)
    pool.free(pool.malloc("1 KiB"))
    pool.free(pool.malloc_aligned("1KiB", 4096))
    pool.reserve("4MiB")
    assert pool.memory_reserved() == 4 * MIB
    pool.trim("2MiB")
    assert pool.memory_reserved() <= 2 * MIB


def test_f10_limits_in_words() -> None:
    total = gpupool.device_info("sim").total_bytes
    expected: list[tuple[dict[str, Any], int]] = [
        ({"limit": "8GiB"}, 8 << 30),
        ({"limit": "50%"}, total // 2),
        ({"limit": 0.5}, total // 2),
        ({"limit": 4096 * 512}, 2 * MIB),
        ({"limit_bytes": "8GiB"}, 8 << 30),
        ({"fraction": "50%"}, total // 2),
        ({"fraction": 1}, total),
        ({"limit_bytes": "8GiB", "fraction": "50%"}, 8 << 30),
        ({}, 0),
    ]
    for given, limit in expected:
        with gpupool.Pool("sim:0", **given) as pool:
            assert pool.stats().limit_bytes == limit, given
    with gpupool.Pool() as pool:
        for text, limit in (("2GiB", 2 << 30), ("50%", total // 2), (0.25, total // 4), (MIB * 4, MIB * 4), (0, 0)):
            pool.set_limit(text)
            assert pool.stats().limit_bytes == limit
        pool.set_per_process_memory_fraction("50%")
        assert pool.stats().limit_bytes == total // 2


def test_f10_devices_in_words() -> None:
    auto, cuda, sim = gpupool.Backend.AUTO, gpupool.Backend.CUDA, gpupool.Backend.SIM
    assert gpupool.parse_device("cuda:1") == (cuda, 1)
    assert [gpupool.parse_device(text) for text in ("sim", "3", "auto")] == [(sim, 0), (auto, 3), (auto, 0)]
    for pool in (gpupool.Pool("sim"), gpupool.Pool(device="sim:0"), gpupool.Pool("0", backend="sim")):
        assert (pool.device, pool.device_info().backend) == (0, sim)
    with gpupool.Pool(device="sim:4") as pool:
        assert (pool.device, pool.device_info().device) == (4, 4)
    if not gpupool.features() & gpupool.Feature.CUDA:
        with pytest.raises(gpupool.UnavailableError, match="CUDA"):
            gpupool.Pool("cuda:0")


def test_a_graph_that_is_gone_gives_its_memory_back() -> None:
    with gpupool.Pool(capture_aware=True) as pool, pool.stream() as stream:
        assert pool.capture_id(stream) == 0
        with gpupool.sim.capture(stream):
            capture = pool.capture_id(stream)
            assert capture != 0
            pool.alloc(4 * MIB, stream).free()
            with pytest.raises(gpupool.InvalidArgumentError):
                pool.release_capture(capture)
        pool.empty_cache()
        assert pool.memory_reserved() >= 4 * MIB
        pool.release_capture(capture)
        pool.empty_cache()
        assert pool.memory_reserved() == 0


def test_a_free_leaves_no_event_while_a_capture_is_announced() -> None:
    with gpupool.Pool("sim:0") as pool, pool.stream() as one, pool.stream() as other:

        def events() -> int:
            for stream in (one, other):
                pool.alloc(64 * MIB, stream).free()
            return pool.stats().driver.event_record.count

        pool.announce_capture(True)
        assert events() == 0
        pool.announce_capture(False)
        assert events() > 0


def test_a_peer_is_let_in() -> None:
    with gpupool.Pool("sim:0") as pool, pool.alloc(MIB):
        pool.enable_peer(1)
        pool.enable_peer(1)
        pool.enable_peer(0)
        pool.validate()


def test_b_what_is_printed() -> None:
    gpupool.sim.configure(2, capacity_bytes="64MiB")
    with gpupool.Pool("sim:2", limit="32MiB") as pool, pool.alloc(1000):
        assert repr(pool) == "<gpupool.Pool on sim:2: 2 MiB of 32 MiB reserved, 1 block live>"
        lines = str(pool.stats()).splitlines()
        assert lines[0] == "Stats"
        assert "  limit_bytes        33554432" in lines
        assert "    requested_bytes   current 1000, peak 1000, total_allocated 1000, total_freed 0" in lines
        assert max(map(len, lines)) < 120
    assert repr(pool) == "<gpupool.Pool on sim:2, closed>"
    gpupool.sim.configure(2)
    with gpupool.Pool(kind="pinned") as pool:
        assert repr(pool) == "<gpupool.Pool on sim:0, pinned: 0 bytes reserved, 0 blocks live>"
