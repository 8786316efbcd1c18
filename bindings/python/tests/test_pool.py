# SPDX-License-Identifier: Apache-2.0
"""Pools by addresses, their limits, and the default pools."""

import inspect
from typing import Any, Literal

import pytest
from conftest import MIB

import gpupool


def test_malloc_and_free(pool: gpupool.Pool) -> None:
    address = pool.malloc(1000)
    assert address % 512 == 0
    assert pool.memory_allocated() == 1024
    pool.free(address)
    assert pool.malloc(size=1000, stream=0) == address
    pool.free(address=address)
    assert pool.malloc(0) == 0
    pool.free(0)
    assert pool.memory_allocated() == 0
    assert pool.max_memory_allocated() == 1024
    pool.validate()


def test_signatures_are_known() -> None:
    assert str(inspect.signature(gpupool.Pool.malloc)) == "(self, /, size, stream=0)"
    assert str(inspect.signature(gpupool.Pool.free)) == "(self, /, address, stream=0)"


def test_integers_of_other_kinds(pool: gpupool.Pool) -> None:
    numpy = pytest.importorskip("numpy")
    address = pool.malloc(numpy.uint64(1000), numpy.int32(0))
    pool.free(numpy.uint64(address), stream=numpy.uint8(0))


def test_alignment(pool: gpupool.Pool) -> None:
    address = pool.malloc_aligned(1000, 2 * MIB)
    assert address % (2 * MIB) == 0
    pool.free(address)
    with pool.alloc(1000, alignment=1 << 16) as buffer:
        assert buffer.address % (1 << 16) == 0


def test_block_info(pool: gpupool.Pool) -> None:
    stream = pool.stream()
    address = pool.malloc(1000, stream)
    block = pool.block_info(address + 777)
    assert (block.address, block.requested_bytes, block.allocated_bytes) == (address, 1000, 1024)
    assert (block.stream, block.state, block.device) == (int(stream), gpupool.BlockState.LIVE, 0)
    pool.free(address, stream)


def test_keeping_and_giving_back(pool: gpupool.Pool) -> None:
    pool.reserve(20 * MIB)
    assert pool.memory_reserved() >= 20 * MIB
    released = pool.trim(10 * MIB)
    assert 0 < pool.memory_reserved() <= 10 * MIB
    assert released + pool.memory_reserved() == pool.max_memory_reserved()
    left = pool.memory_reserved()
    assert pool.empty_cache() == left
    assert pool.memory_reserved() == 0
    pool.reset_peak_memory_stats()
    assert pool.max_memory_reserved() == 0


def test_limits(pool: gpupool.Pool) -> None:
    total = pool.device_info().total_bytes
    pool.set_per_process_memory_fraction(0.5)
    assert pool.stats().limit_bytes == total // 2
    with pytest.raises(gpupool.InvalidArgumentError):
        pool.set_per_process_memory_fraction(0)
    pool.set_limit(4 * MIB)
    address = pool.malloc(4 * MIB)
    with pytest.raises(gpupool.OverLimitError):
        pool.set_limit(2 * MIB)
    pool.set_limit(0)
    pool.free(address)
    assert pool.stats().limit_bytes == 0


def test_children_share_the_limit() -> None:
    with gpupool.Pool(backend="sim", limit="64MiB") as pool, pool.create_child() as child:
        address = child.malloc("40MiB")
        with pytest.raises(gpupool.OverLimitError):
            pool.malloc("40MiB")
        with pytest.raises(gpupool.InvalidArgumentError, match="its parent's"):
            child.set_limit("8MiB")
        with pytest.raises(gpupool.InvalidArgumentError, match="no children"):
            child.create_child()
        child.free(address)
        assert child.stats().all.reserved_bytes.current == 40 << 20
        assert child.empty_cache() == 40 << 20
        pool.free(pool.malloc("40MiB"))
        assert (child.device, child.kind) == (pool.device, pool.kind)


def test_options() -> None:
    limits = {"fraction": 0.5, "limit_bytes": 64 * MIB, "slack": 0.1, "max_chunk_bytes": 4 * MIB}
    with gpupool.Pool(3, backend="sim", mode=gpupool.Mode.VMM, peers=[4, 5], capture_aware=True, **limits) as pool:  # type: ignore[arg-type]
        assert pool.stats().limit_bytes == 64 * MIB
        pool.free(pool.malloc(16 * MIB))
        assert max(segment.size_bytes for segment in pool.snapshot().segments) <= 4 * MIB
        assert (pool.device, pool.kind) == (3, gpupool.Kind.DEVICE)
        assert repr(pool).startswith("<gpupool.Pool on sim:3: ")


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
@pytest.mark.parametrize("mode", ["auto", "driver"])
def test_kinds_and_modes(kind: Literal["device", "pinned", "managed"], mode: Literal["auto", "driver"]) -> None:
    with gpupool.Pool(kind=kind, mode=mode) as pool, pool.alloc(1000) as buffer:
        buffer.copy_from_host(b"x" * 1000)
        assert buffer.copy_to_host() == b"x" * 1000


def test_an_abandoned_pool_goes() -> None:
    """Nobody but the pools of this test uses device 6."""
    pool = gpupool.Pool(6)
    pool.free(pool.malloc(MIB))
    with pytest.raises(gpupool.InvalidArgumentError, match="in use"):
        gpupool.sim.configure(6)
    del pool
    gpupool.sim.configure(6)


def test_default_pool() -> None:
    pool = gpupool.default_pool()
    assert gpupool.default_pool(0) is pool
    with pytest.raises(gpupool.InvalidArgumentError, match="belongs to the process"):
        pool.close()
    with pool, pool.alloc(1000):
        assert gpupool.memory_allocated() == pool.memory_allocated() == 1024
        assert gpupool.memory_reserved(0) == pool.memory_reserved()
        assert gpupool.memory_stats()["allocated_bytes.all.current"] == 1024
        assert "1024 B" in gpupool.memory_summary()
        assert len(gpupool.snapshot().blocks) >= 1
    assert not pool.is_closed
    gpupool.synchronize()
    assert gpupool.empty_cache() > 0
    gpupool.set_per_process_memory_fraction(0.5)
    assert pool.stats().limit_bytes > 0
    pool.set_limit(0)
    gpupool.reset_peak_memory_stats()
    assert (gpupool.max_memory_allocated(), gpupool.max_memory_reserved()) == (0, 0)


def test_library() -> None:
    assert gpupool.__version__ == gpupool.version()
    assert gpupool.version_number() == gpupool.VERSION
    assert gpupool.features() & gpupool.Feature.SIM
    assert gpupool.device_count("sim") == 8
    info = gpupool.device_info(5, "sim")
    assert (info.backend, info.device) == (gpupool.Backend.SIM, 5)
    assert info.capabilities & gpupool.Capability.VMM
    assert "simulated" in info.name


def test_everything_is_exported() -> None:
    for name in gpupool.__all__:
        assert getattr(gpupool, name) is not None
    with pytest.raises(AttributeError):
        gpupool.nonsense  # noqa: B018


def test_records_are_plain_data(pool: gpupool.Pool) -> None:
    stats: Any = pool.stats()
    assert stats == pool.stats()
    assert hash(stats) == hash(pool.stats())
    assert stats.as_dict()["all"]["chunks"]["current"] == 0
    assert repr(stats.all.chunks) == "Stat(current=0, peak=0, total_allocated=0, total_freed=0)"
    with pytest.raises(AttributeError):
        stats.hits = 7
    pool.malloc(1)
    assert stats != pool.stats()
