# SPDX-License-Identifier: Apache-2.0
"""Any sequence of calls counts as a simple model says, and disturbs no block."""

from collections.abc import Iterator
from contextlib import contextmanager

from conftest import MIB
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import gpupool

LIMIT = 24 * MIB
SIZES = st.one_of(st.integers(1, 4096), st.integers(1, 6 * MIB))


@contextmanager
def unchanged(pool: gpupool.Pool) -> Iterator[None]:
    before = pool.stats().all
    yield
    after = pool.stats().all
    assert (before.allocated_bytes, before.requested_bytes) == (after.allocated_bytes, after.requested_bytes)


class Model(RuleBasedStateMachine):
    """Live buffers with what was written to each, against a pool with a limit."""

    @initialize()
    def start(self) -> None:
        self.pool = gpupool.Pool(limit_bytes=LIMIT)
        self.streams: list[gpupool.StreamLike] = [0, self.pool.stream(), self.pool.stream()]
        self.live: list[tuple[gpupool.Buffer, int]] = []
        self.peak = self.total = self.count = 0
        self.mark = 0
        self.faults = gpupool.sim.faults()

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.live.clear()
            self.streams.clear()
            assert self.pool.memory_allocated() == 0
            self.pool.empty_cache()
            assert self.pool.memory_reserved() == 0
            self.pool.close()
            assert gpupool.sim.faults() == self.faults

    @rule(size=SIZES, stream=st.integers(0, 2))
    def alloc(self, size: int, stream: int) -> None:
        try:
            buffer = self.pool.alloc(size, self.streams[stream])
        except gpupool.OverLimitError:
            # Chunks of 2 MiB: a block may lack up to two of them, and one for each small heap.
            assert self.current() + size + 16 * MIB > LIMIT
            return
        self.mark = self.mark % 255 + 1
        buffer.fill(self.mark)
        self.live.append((buffer, self.mark))
        self.count += 1
        self.total += -(-size // 512) * 512
        self.peak = max(self.peak, self.current())

    @rule(data=st.data(), stream=st.integers(0, 2))
    def free(self, data: st.DataObject, stream: int) -> None:
        if self.live:
            buffer, mark = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
            buffer.synchronize()
            assert buffer.copy_to_host() == bytes([mark]) * buffer.nbytes
            buffer.record_stream(self.streams[stream])
            buffer.free()

    @rule(data=st.data())
    def free_wrongly(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([0, 1, 512]))
        addresses = {buffer.address for buffer, _ in self.live}
        address = data.draw(st.sampled_from(sorted(addresses) or [4096])) + offset
        if address not in addresses:
            with unchanged(self.pool):
                try:
                    self.pool.free(address)
                    raise AssertionError("a wrong free was accepted")
                except gpupool.UnknownPointerError:
                    pass

    @rule(reserved=st.integers(0, LIMIT))
    def give_back(self, reserved: int) -> None:
        with unchanged(self.pool):
            self.pool.trim(reserved)

    @rule()
    def synchronize(self) -> None:
        with unchanged(self.pool):
            self.pool.synchronize()

    def current(self) -> int:
        return sum(-(-buffer.nbytes // 512) * 512 for buffer, _ in self.live)

    @invariant()
    def counts(self) -> None:
        if not hasattr(self, "pool"):
            return
        stats = self.pool.stats()
        both = stats.all
        assert both.allocated_bytes.current == self.current()
        assert both.requested_bytes.current == sum(buffer.nbytes for buffer, _ in self.live)
        assert both.allocated_blocks.current == len(self.live)
        assert both.allocated_bytes.peak == self.peak
        assert both.allocated_bytes.total_allocated == self.total
        assert both.allocated_blocks.total_allocated == self.count
        assert both.reserved_bytes.peak <= LIMIT
        assert both.reserved_bytes.current == both.active_bytes.current + stats.cached_bytes + stats.slack_bytes
        self.pool.validate()


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
