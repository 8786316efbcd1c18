# SPDX-License-Identifier: Apache-2.0
"""Replays a recorded workload through a pool: python replay.py TRACE.gz

Each number of a stream in the trace becomes a stream. Two passes in one pool: the first pays for memory.
"""

import gzip
import json
import sys
import time
from pathlib import Path

import gpupool

PASSES = 2
Event = tuple[int, int, int]
"""The block's slot, its bytes (-1: a free), and the index of its stream."""


def read_trace(path: Path) -> tuple[list[Event], int, int]:
    """The events, with a free for each block left at the end; how many come from the trace; the live peak."""
    events: list[Event] = []
    live: dict[str, Event] = {}
    free_slots: list[int] = []
    streams: dict[str, int] = {}
    slots = live_bytes = peak = 0
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in text.decode().splitlines():
        kind, *fields = line.split() or ["#"]
        if kind == "a":
            if free_slots:
                slot = free_slots.pop()
            else:
                slot, slots = slots, slots + 1
            live[fields[0]] = (slot, int(fields[1]), streams.setdefault(fields[2], len(streams)))
            events.append(live[fields[0]])
            live_bytes += -(-events[-1][1] // 512) * 512
            peak = max(peak, live_bytes)
        elif kind == "f":
            slot, size, stream = live.pop(fields[0])
            events.append((slot, -1, stream))
            free_slots.append(slot)
            live_bytes -= -(-size // 512) * 512
    leftovers = [(slot, -1, stream) for slot, _, stream in sorted(live.values())]
    return events + leftovers, len(events), peak


def play(pool: gpupool.Pool, events: list[Event], streams: list[int], blocks: dict[int, int]) -> None:
    malloc, free = pool.malloc, pool.free
    for slot, size, stream in events:
        if size >= 0:
            blocks[slot] = malloc(size, streams[stream])
        else:
            free(blocks[slot], streams[stream])


def driver_calls(stats: gpupool.Stats) -> int:
    return sum(call["count"] for call in stats.driver.as_dict().values())


def main(path: Path) -> None:
    info = gpupool.device_info()
    if info.backend == gpupool.Backend.SIM:
        gpupool.sim.configure(info.device, data=False)
    events, count, peak_live = read_trace(path)
    pool = gpupool.Pool()
    owned = [pool.stream() for _ in range(max(stream for _, _, stream in events) + 1)]
    streams, blocks = [int(stream) for stream in owned], dict[int, int]()
    passes, nanoseconds = [pool.stats()], []
    for _ in range(PASSES):
        start = time.perf_counter_ns()
        play(pool, events[:count], streams, blocks)
        nanoseconds.append(round((time.perf_counter_ns() - start) / count, 1))
        play(pool, events[count:], streams, blocks)
        passes.append(pool.stats())
    pairs = list(zip(passes[1:], passes, strict=False))
    line = {
        "language": "python",
        "device": f"{info.backend.name.lower()}:{info.device}",
        "trace": path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".trace"),
        "events": count,
        "ns_per_event": nanoseconds,
        "peak_live_bytes": peak_live,
        "peak_reserved_bytes": passes[-1].all.reserved_bytes.peak,
        "driver_calls": [driver_calls(after) - driver_calls(before) for after, before in pairs],
    }
    for name in ("hits", "misses", "steals"):
        line[name] = [getattr(after, name) - getattr(before, name) for after, before in pairs]
    print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python replay.py TRACE.gz")
    main(Path(sys.argv[1]))
