# SPDX-License-Identifier: Apache-2.0
"""Replays allocation traces through PyTorch's own allocator, as a peer for `gpupool replay`.

    PYTORCH_ALLOC_CONF=expandable_segments:True python3 pytorch_replay.py TRACE...

Needs PyTorch and a GPU. Prints one JSON object per trace: PyTorch's peak of reserved memory over the peak of live
memory. It omits times, because a Python loop says nothing about a C++ allocator.
"""

import gzip
import json
import os
import sys

import torch


def read_trace(path):
    """Yields ("a", id, bytes, stream) and ("f", id)."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rt") if is_gzip else open(path) as file:
        for line in file:
            fields = line.split()
            if fields and fields[0] in "af":
                yield (fields[0], *map(int, fields[1:]))


def replay(path, passes=2):
    """Plays a trace, each of its streams on a stream of its own, and returns what was measured."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    events = list(read_trace(path))
    streams = {event[3]: torch.cuda.Stream() for event in events if event[0] == "a"}
    live = peak = 0
    for _ in range(passes):
        blocks = {}
        for event in events:
            if event[0] == "a":
                _, name, size, stream = event
                pointer = torch.cuda.caching_allocator_alloc(size, stream=streams[stream])
                blocks[name] = (pointer, -(-size // 512) * 512)
                live += blocks[name][1]
                peak = max(peak, live)
            else:
                pointer, size = blocks.pop(event[1])
                torch.cuda.caching_allocator_delete(pointer)
                live -= size
        for pointer, size in blocks.values():
            torch.cuda.caching_allocator_delete(pointer)
            live -= size
    reserved = torch.cuda.max_memory_reserved()
    return {
        "trace": os.path.basename(path).split(".")[0],
        "allocator": "pytorch " + torch.__version__,
        "configuration": os.environ.get("PYTORCH_ALLOC_CONF", "default"),
        "peak_live_bytes": peak,
        "peak_reserved_bytes": reserved,
        "reserved_over_live": round(reserved / peak, 6),
    }


def main():
    if len(sys.argv) < 2 or not torch.cuda.is_available():
        sys.exit("usage: pytorch_replay.py TRACE... (on a machine with PyTorch and a GPU)")
    for path in sys.argv[1:]:
        print(json.dumps(replay(path)), flush=True)


if __name__ == "__main__":
    main()
