# SPDX-License-Identifier: Apache-2.0
"""Watching a pool: its statistics, under PyTorch's names too, and where its memory is."""

from __future__ import annotations

from ._error import Error
from ._handle import Handle
from ._html import bar, in_words, table
from ._native import ffi, lib
from ._record import Record
from ._structs import Block, Holder, Segment, Stats
from ._torch_names import memory_stats, memory_summary


def use_in_words(stats: Stats) -> str:
    """For example "2 MiB of 64 MiB reserved, 1 block live"."""
    blocks = stats.all.allocated_blocks.current
    limit = f" of {in_words(stats.limit_bytes)}" if stats.limit_bytes else ""
    live = f"{blocks} block{'s' * (blocks != 1)} live"
    return f"{in_words(stats.all.reserved_bytes.current)}{limit} reserved, {live}"


class Snapshot(Record):
    """All mapped memory and its contents, sorted by address; not of one moment beside threads that allocate."""

    __slots__ = ("blocks", "segments")

    segments: tuple[Segment, ...]
    blocks: tuple[Block, ...]


class Watched(Handle):
    """The part of Pool that only reads. Any thread may call it at any time."""

    __slots__ = ()

    def stats(self) -> Stats:
        """Everything that the library counts. Works on inherited pools after fork."""
        stats = ffi.new("gpupool_stats_t *", {"struct_size": ffi.sizeof("gpupool_stats_t")})
        self._call(lib.gpupool_stats, stats)
        return Stats._of(stats)

    def _repr_html_(self) -> str:
        """For notebooks: what the pool holds of what it may hold."""
        try:
            stats = self.stats()
        except Error:  # closed
            return table(repr(self), [])
        rows: list[tuple[object, ...]] = [("", "now", "peak")]
        for name in ("reserved_bytes", "allocated_bytes", "requested_bytes"):
            stat = getattr(stats.all, name)
            rows.append((name.removesuffix("_bytes"), in_words(stat.current), in_words(stat.peak)))
        if stats.limit_bytes:
            rows.append(("of the limit", bar(stats.all.reserved_bytes.current, stats.limit_bytes)))
        return table(repr(self), rows)

    def reset_peak_memory_stats(self) -> None:
        """Sets every peak to the current value."""
        self._call(lib.gpupool_reset_peaks)

    def memory_allocated(self) -> int:
        """Bytes of live blocks, each rounded up to 512."""
        return self.stats().all.allocated_bytes.current

    def max_memory_allocated(self) -> int:
        """The peak of bytes in live blocks since the start or reset_peak_memory_stats."""
        return self.stats().all.allocated_bytes.peak

    def memory_reserved(self) -> int:
        """Bytes of physical memory that the pool holds."""
        return self.stats().all.reserved_bytes.current

    def max_memory_reserved(self) -> int:
        """The peak of physical memory that the pool held, in bytes, since the start or reset_peak_memory_stats."""
        return self.stats().all.reserved_bytes.peak

    def memory_stats(self) -> dict[str, int]:
        """The statistics under the names of torch.cuda.memory_stats, sorted.

        Segments are chunks. A key for something that this pool does not have (blocks that were split off, blocks over a
        size limit) is 0, as in PyTorch with expandable segments; max_split_size is -1, for "none".
        """
        return memory_stats(self.stats())

    def memory_summary(self, abbreviated: bool = False) -> str:
        """The statistics as a readable table, in the form of torch.cuda.memory_summary. abbreviated omits the lines of
        the large and the small heaps."""
        return memory_summary(self.stats(), abbreviated)

    def snapshot(self) -> Snapshot:
        """Lists all mapped memory and its contents. Raises HostOutOfMemoryError."""
        counts = ffi.new("size_t[2]")
        segments, blocks = ffi.NULL, ffi.NULL
        room = (0, 0)
        while True:
            self._call(
                lib.gpupool_snapshot,
                *(segments, ffi.sizeof("gpupool_segment_t"), room[0], counts),
                *(blocks, ffi.sizeof("gpupool_block_t"), room[1], counts + 1),
            )
            if counts[0] <= room[0] and counts[1] <= room[1]:
                break
            # Other threads may add to the lists meanwhile.
            room = (counts[0], counts[1])
            segments, blocks = ffi.new("gpupool_segment_t[]", room[0]), ffi.new("gpupool_block_t[]", room[1])
        return Snapshot(
            segments=tuple(Segment._of(segments[i]) for i in range(counts[0])),
            blocks=tuple(Block._of(blocks[i]) for i in range(counts[1])),
        )

    def block_info(self, address: int) -> Block:
        """Describes the live block that contains an address. Raises UnknownPointerError."""
        block = ffi.new("gpupool_block_t *")
        self._call(lib.gpupool_block_info, address, block, ffi.sizeof("gpupool_block_t"))
        return Block._of(block)

    def holders(self) -> tuple[Holder, ...]:
        """Who holds the live bytes, largest first, by call site and tag, estimated from samples: large holders always
        appear, within a few per cent. Raises HostOutOfMemoryError. Since 0.2."""
        count, room, holders = ffi.new("size_t *"), 0, ffi.NULL
        while True:
            self._call(lib.gpupool_holders, holders, ffi.sizeof("gpupool_holder_t"), room, count)
            if count[0] <= room:
                return tuple(Holder._of(holders[i]) for i in range(count[0]))
            room = count[0]
            holders = ffi.new("gpupool_holder_t[]", room)

    def validate(self) -> None:
        """Checks every invariant of the pool's records. Slow; for tests. Raises InternalError."""
        self._call(lib.gpupool_validate)
