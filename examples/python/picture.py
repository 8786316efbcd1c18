# SPDX-License-Identifier: Apache-2.0
"""Plots a recorded workload's reserved and live memory: python picture.py TRACE.gz OUT.svg"""

import sys
from pathlib import Path

from replay import read_trace

import gpupool

WIDTH, HEIGHT, MARGIN = 960, 360, 60
Curve = list[int]


def record(path: Path, points: int = 600) -> tuple[Curve, Curve]:
    """The peaks of reserved and allocated memory in this many sections of one pass."""
    if gpupool.device_info().backend == gpupool.Backend.SIM:
        gpupool.sim.configure(0, data=False)
    events, count, _ = read_trace(path)
    pool = gpupool.Pool()
    owned = [pool.stream() for _ in range(max(stream for _, _, stream in events) + 1)]
    streams, blocks = [int(stream) for stream in owned], dict[int, int]()
    reserved, allocated = Curve(), Curve()
    for number, (slot, size, stream) in enumerate(events[:count]):
        if size >= 0:
            blocks[slot] = pool.malloc(size, streams[stream])
        else:
            pool.free(blocks.pop(slot), streams[stream])
        if number % max(1, count // points) == 0 or number == count - 1:
            stats = pool.stats().all
            reserved.append(stats.reserved_bytes.peak)
            allocated.append(stats.allocated_bytes.peak)
            pool.reset_peak_memory_stats()
    for address in blocks.values():
        pool.free(address)
    return reserved, allocated


def polyline(curve: Curve, most: int, colour: str) -> str:
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    points = " ".join(
        f"{MARGIN + across * at / (len(curve) - 1):.1f},{HEIGHT - MARGIN - up * value / most:.1f}"
        for at, value in enumerate(curve)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def text(x: int, y: int, words: str, colour: str = "#333") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{words}</text>'


def draw(name: str, reserved: Curve, allocated: Curve) -> str:
    most = max(reserved)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        text(MARGIN, 30, f"{name}: reserved peak {max(reserved) / 2**20:.0f} MiB, live peak "
                         f"{max(allocated) / 2**20:.0f} MiB, {max(reserved) / max(allocated):.3f} times"),
        text(MARGIN, HEIGHT - 20, "reserved", "#c33"),
        text(MARGIN + 80, HEIGHT - 20, "allocated", "#36c"),
        text(MARGIN + 170, HEIGHT - 20, f"over the events of one pass; the top is {most / 2**20:.0f} MiB"),
        polyline(reserved, most, "#c33"),
        polyline(allocated, most, "#36c"),
        "</svg>",
    ]) + "\n"  # fmt: skip


def main(trace: Path, picture: Path) -> None:
    picture.write_text(draw(trace.name.split(".")[0], *record(trace)), encoding="utf-8")
    print(f"reserved against allocated: {picture}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python picture.py TRACE.gz OUT.svg")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
