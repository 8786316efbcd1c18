# SPDX-License-Identifier: Apache-2.0
"""CuPy's memory pool, with the commands and the lines of JSON of the peers in C++ (harness/harness.hpp).

CuPy's pool can only be called from Python, so every figure includes a Python loop. loop_ns gives the cost of the same
loop with a pool that does nothing. One thread only, because Python runs one at a time.
"""

import argparse
import contextlib
import json
import operator
import random
import statistics
import sys
import time
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20


class CupyPool:
    def __init__(self, cap_bytes=0):
        import cupy  # noqa: PLC0415  (so that --help needs none)

        self.cupy = cupy
        self.pool = cupy.cuda.MemoryPool()
        if cap_bytes:
            self.pool.set_limit(size=cap_bytes)
        self.malloc = self.pool.malloc
        self.out_of_memory = cupy.cuda.memory.OutOfMemoryError

    def new_stream(self):
        return self.cupy.cuda.Stream(non_blocking=True)

    def reserved_bytes(self):
        return self.pool.total_bytes()

    def close(self):
        self.pool.free_all_blocks()


class NoPool:
    """What the loop costs by itself: malloc gives an object, and nothing is kept."""

    out_of_memory = MemoryError

    def __init__(self, _=0):
        self.malloc = float  # a call into C that makes an object

    def new_stream(self):
        return contextlib.nullcontext()

    def reserved_bytes(self):
        return 0

    def close(self):
        pass


def median_ns(once, count, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        once(count)
        times.append((time.perf_counter_ns() - start) / count)
    return sorted(times)


def pair(pool, size):
    malloc = pool.malloc

    def once(count):
        for _ in range(count):
            malloc(size)

    with pool.new_stream():
        once(1000)
        return median_ns(once, 20000)


def sizes_in_turn(pool, sizes):
    malloc = pool.malloc

    def once(count):
        for i in range(count):
            malloc(512 * (1 + i % sizes))

    with pool.new_stream():
        once(2 * sizes)
        return median_ns(once, 20000)


def churn(pool, live_blocks, size):
    rng = random.Random(1)
    sizes = [int(512 * (size / 512) ** rng.random()) for _ in range(1 << 16)]
    places = [rng.randrange(live_blocks) for _ in range(1 << 16)]
    malloc = pool.malloc

    def once(count):
        for i in range(count):
            place = places[i & 0xFFFF]
            blocks[place] = None
            blocks[place] = malloc(sizes[(i * 31) & 0xFFFF])

    with pool.new_stream():
        blocks = [malloc(sizes[i & 0xFFFF]) for i in range(live_blocks)]
        once(2 * live_blocks)
        times = median_ns(once, 20000)
        blocks.clear()
    return times


def run_bench(_):
    cases = []
    for size in (4 * KIB, 64 * KIB, MIB, 64 * MIB, 256 * MIB):
        cases.append(("pair", size, 0, 1, lambda pool, size=size: pair(pool, size)))
    for sizes in (64, 1024):
        name = f"sizes_in_turn_{sizes}"
        cases.append((name, 512 * sizes, 0, sizes, lambda pool, sizes=sizes: sizes_in_turn(pool, sizes)))
    for live, size in ((1000, 16 * MIB), (10000, MIB)):
        cases.append(("churn", size, live, 1 << 16, lambda pool, live=live, size=size: churn(pool, live, size)))
    for name, size, live, sizes, case in cases:
        pool = CupyPool()
        times, loop = case(pool), case(NoPool()) if live == 0 else None
        pool.close()
        line = {"peer": "cupy", "case": name, "size": size, "threads": 1, "live_blocks": live}
        line |= {"sizes": sizes, "floor": sizes == 1 and size < MIB}
        line |= {"ns": round(times[2], 1), "ns_min": round(times[0], 1), "ns_max": round(times[-1], 1)}
        if loop:
            line["loop_ns"] = round(statistics.median(loop), 1)
        print(json.dumps(line), flush=True)


def read_trace(path):
    """Events (slot, size, stream), size 0 for a free; the number of slots; the live peak."""
    events, live, free_slots, slots, now, peak = [], {}, [], 0, 0, 0
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        kind, *words = line.split()
        if kind == "a":
            block, size, stream = map(int, words)
            if free_slots:
                slot = free_slots.pop()
            else:
                slot, slots = slots, slots + 1
            live[block] = slot, stream, -(-size // 512) * 512
            now += live[block][2]
            peak = max(peak, now)
            events.append((slot, size, stream))
        elif kind == "f":
            slot, stream, size = live.pop(int(words[0]))
            now -= size
            free_slots.append(slot)
            events.append((slot, 0, stream))
    return events, slots, peak


def play(pool, events, slots, streams):
    """Plays one pass. Returns how many events there was memory for."""
    blocks, malloc, current = [None] * slots, pool.malloc, None
    left = iter(events)
    try:
        for slot, size, stream in left:
            if size:
                if stream is not current:
                    streams[stream].use()
                    current = stream
                blocks[slot] = malloc(size)
            else:
                blocks[slot] = None
    except pool.out_of_memory:
        return len(events) - operator.length_hint(left) - 1
    return len(events)


def replay(path, passes, seconds, cap):
    events, slots, peak = read_trace(path)
    if cap == "auto":
        cap = 1.05 if peak < 4000000000 else 1.02
    cap = float(cap or 0)
    pool = CupyPool(int(cap * peak))
    streams = {stream: pool.new_stream() for _, _, stream in events}
    ns_per_event, reserved, done, start = [], [], len(events), time.perf_counter()
    while len(ns_per_event) < passes and done == len(events) and time.perf_counter() - start < seconds:
        begin = time.perf_counter_ns()
        done = play(pool, events, slots, streams)
        ns_per_event.append(round((time.perf_counter_ns() - begin) / max(1, done), 1))
        reserved.append(round(pool.reserved_bytes() / peak, 6))
    pool.close()
    line = {"peer": "cupy", "trace": Path(path).name.split(".")[0], "events": len(events), "streams": len(streams)}
    line |= {"peak_live_bytes": peak, "cap_over_live": cap, "timed": False, "completed": done == len(events)}
    line |= {"out_of_memory": done < len(events), "passes": len(ns_per_event), "ns_per_event": ns_per_event}
    print(json.dumps(line | {"reserved_over_live": reserved}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["bench", "replay", "version"])
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--cap")
    options = parser.parse_intermixed_args()
    if options.command == "version":
        import cupy  # noqa: PLC0415

        print(json.dumps({"peer": "cupy", "version": cupy.__version__}))
    elif options.command == "bench":
        run_bench(options)
    else:
        for path in options.traces:
            replay(path, options.passes, options.seconds, options.cap)


if __name__ == "__main__":
    sys.exit(main())
