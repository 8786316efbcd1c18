# SPDX-License-Identifier: Apache-2.0
"""Writes generated allocation traces: other workloads that a pool must handle well.

    python3 make_traces.py FOLDER [NAME...]      all of them, or those that are named
    python3 make_traces.py --list

Each trace depends only on its name and --seed. Its first line describes it and gives the peak of live bytes, with each
block rounded up to 512. The format is that of tests/data/README.md.
"""

import argparse
import gzip
import random
import sys
from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Recorder:
    """A program's heap: gives out numbers for blocks, and keeps count of what is live."""

    def __init__(self, rng):
        self.rng = rng
        self.lines = []
        self.sizes = {}
        self.live = self.peak = self.count = 0

    def malloc(self, size, stream=0):
        block, self.count = self.count, self.count + 1
        self.lines.append(f"a {block} {size} {stream}")
        self.sizes[block] = -(-size // 512) * 512
        self.live += self.sizes[block]
        self.peak = max(self.peak, self.live)
        return block

    def free(self, block):
        self.lines.append(f"f {block}")
        self.live -= self.sizes.pop(block)

    def free_all(self, blocks):
        for block in blocks:
            self.free(block)

    def log_uniform(self, least, most):
        return int(least * (most / least) ** self.rng.random())

    def replace(self, sizes, most_live, count):
        """`count` blocks of sizes() bytes; random ones make room, so that at most `most_live` bytes are live."""
        live = []
        for _ in range(count):
            size = sizes()
            while live and self.live + size + 512 > most_live:
                at = self.rng.randrange(len(live))
                live[at], live[-1] = live[-1], live[at]
                self.free(live.pop())
            live.append(self.malloc(size))


def shuffled(heap):
    """Iterations of the same blocks, each time in another order of freeing and with other neighbours"""
    weights = [heap.log_uniform(64 * KIB, 96 * MIB) for _ in range(120)]
    activations = [heap.log_uniform(16 * KIB, 160 * MIB) for _ in range(220)]
    for size in weights:
        heap.malloc(size)
    for _ in range(40):
        heap.rng.shuffle(activations)
        live = []
        for size in activations:
            live.append(heap.malloc(size))
            if len(live) > 160:
                heap.free(live.pop(heap.rng.randrange(len(live))))
        heap.rng.shuffle(live)
        heap.free_all(live)


def phases(heap):
    """A program that trains, evaluates with other shapes, and trains a larger model: what fitted fits no more"""
    for weight, blocks, least, most in ((90, 150, MIB, 128 * MIB), (30, 90, 8 * MIB, 400 * MIB),
                                        (140, 220, 512 * KIB, 90 * MIB), (60, 120, 3 * MIB, 200 * MIB)):
        kept = [heap.malloc(heap.log_uniform(256 * KIB, 64 * MIB)) for _ in range(weight)]
        sizes = [heap.log_uniform(least, most) for _ in range(blocks)]
        for _ in range(12):
            live = [heap.malloc(size) for size in sizes[: blocks * 2 // 3]]
            for size in sizes[blocks * 2 // 3 :]:
                heap.free(live.pop())
                live.insert(0, heap.malloc(size))
            heap.free_all(reversed(live))
        heap.free_all(kept)


def kv_cache(heap):
    """Sequences whose key-value caches grow by a tenth at a time into new blocks, while others end and begin"""
    for _ in range(48):
        heap.malloc(64 * MIB)  # the model
    caches = []
    for _ in range(9000):
        if len(caches) < 48 and heap.live < 9 * GIB:
            caches.append([heap.malloc(heap.log_uniform(2 * MIB, 32 * MIB)), 0])
        at = heap.rng.randrange(len(caches))
        block, grown = caches[at]
        size = heap.sizes[block] * 11 // 10 + heap.rng.randrange(64) * 512
        if grown > 30 or heap.live + size > 9 * GIB or heap.rng.random() < 0.02:
            heap.free(caches.pop(at)[0])
            continue
        scratch = heap.malloc(heap.log_uniform(16 * KIB, 8 * MIB))
        caches[at] = [heap.malloc(size), grown + 1]
        heap.free(block)
        heap.free(scratch)


def near_powers(heap):
    """Powers of two, plus or minus one byte, of random lifetimes: rounding to classes doubles them"""
    heap.replace(lambda: (1 << heap.rng.randrange(9, 28)) + heap.rng.choice((-1, 1)), 4 * GIB, 12000)


def comb(heap):
    """Teeth: many equal blocks of which every other is freed, then blocks too large for the gaps"""
    kept = []
    for step in range(24):
        size = (2 + step) * MIB + 512
        teeth = [heap.malloc(size) for _ in range(160)]
        heap.free_all(teeth[::2])
        kept.append(teeth[1::2])
        while heap.live > 5 * GIB:
            heap.free_all(kept.pop(0))
    heap.free_all(block for teeth in kept for block in teeth)


def torch_193400(heap):
    """A cycle of 91 MiB and 45.5 MiB, with 2 MiB that stay: reported as PyTorch's issue 193400"""
    for _ in range(1500):
        large = heap.malloc(91 * MIB)
        half = heap.malloc(91 * MIB // 2)
        heap.free(large)
        heap.malloc(2 * MIB)
        heap.free(half)


def huge(heap):
    """Blocks of hundreds of MiB whose sizes never repeat, 16 GiB live"""
    seen = set()

    def size():
        while (bytes_ := heap.rng.randrange(128 * MIB, 768 * MIB)) // 512 in seen:
            pass
        seen.add(bytes_ // 512)
        return bytes_

    heap.replace(size, 16 * GIB, 1500)


def changing_mix(heap):
    """Random sizes of 16 to 512 MiB whose mix changes with time, 8 GiB live"""
    count = 0

    def size():
        nonlocal count
        count += 1
        middle = 16 * MIB * 2 ** (2.5 + 2.5 * ((count // 250) % 3 - 1))
        return max(16 * MIB, min(512 * MIB, int(middle * 2 ** heap.rng.gauss(0, 1))))

    heap.replace(size, 8 * GIB, 4000)


def small_blocks(heap):
    """Small blocks, of 1 byte to 64 KiB, a hundred thousand live, under a few large ones that come and go"""
    heap.replace(lambda: heap.log_uniform(1, 64 * KIB), 500 * MIB, 110000)
    for _ in range(300):
        large = [heap.malloc(heap.log_uniform(MIB, 24 * MIB)) for _ in range(3)]
        heap.free_all([heap.malloc(heap.log_uniform(1, 4 * KIB)) for _ in range(60)])
        heap.free_all(large)


def drift(heap):
    """Iterations whose blocks grow by half a per cent each time, as with a length that slowly changes"""
    base = [heap.log_uniform(256 * KIB, 96 * MIB) for _ in range(200)]
    for _ in range(60):
        heap.malloc(heap.log_uniform(1 * MIB, 48 * MIB))
    for iteration in range(80):
        live = [heap.malloc(int(size * 1.005**iteration)) for size in base]
        heap.free_all(reversed(live))


def stream_shift(heap):
    """Work that moves from one of four streams to the next, so that what one leaves the other needs"""
    for iteration in range(60):
        stream = iteration // 5 % 4
        live = [heap.malloc(heap.log_uniform(512 * KIB, 128 * MIB), stream) for _ in range(110)]
        live += [heap.malloc(heap.log_uniform(4 * KIB, 2 * MIB), (stream + 1) % 4) for _ in range(40)]
        heap.rng.shuffle(live)
        heap.free_all(live)


KINDS = (shuffled, phases, kv_cache, near_powers, comb, torch_193400, huge, changing_mix, small_blocks, drift,
         stream_shift)  # fmt: skip
NAMES = {kind.__name__: kind for kind in KINDS}


def make(name, seed=1):
    """A trace's lines."""
    heap = Recorder(random.Random(f"{name} {seed}"))
    NAMES[name](heap)
    told = f"# {name}, seed {seed}: {NAMES[name].__doc__}; {heap.peak} bytes live at most"
    return [told, *heap.lines]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name the traces and end")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(NAMES)
    if unknown or not (options.folder or options.list):
        parser.error(f"no such trace: {', '.join(sorted(unknown))}" if unknown else "where to?")
    if options.list:
        for name, kind in NAMES.items():
            print(f"{name:14} {kind.__doc__}")
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NAMES:
        text = "\n".join(make(name, options.seed)) + "\n"
        # No time of writing within, so that equal traces are equal files.
        path = options.folder / f"{name}.trace.gz"
        path.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
