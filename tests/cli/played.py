# SPDX-License-Identifier: Apache-2.0
"""A program to record: plays a recorded trace through the default pool. The size of each block is its tag, for want of
the call sites. GPUPOOL_LIBRARY is the library.

    played.py TRACE MARKS      makes so many marks, and leaks 64 KiB under the tag "planted" before each
    played.py TRACE whole MARKS  makes so many marks, and leaks nothing
    played.py TRACE holders    stops at the peak; prints what is live and what the samples say, as JSON
"""

import ctypes
import gzip
import json
import os
import sys
from collections import Counter

u64 = ctypes.c_uint64
library = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
library.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
library.gpupool_free.argtypes = [ctypes.c_void_p, u64, u64]
library.gpupool_holders.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t,
                                    ctypes.POINTER(ctypes.c_size_t)]


class Holder(ctypes.Structure):
    _fields_ = [("live_bytes", u64), ("samples", u64), ("oldest", u64), ("newest", u64),
                ("tag", ctypes.c_char * 64), ("stack", ctypes.c_char * 2048)]


def check(status):
    if status != 0:
        raise RuntimeError(status)


def events_of(path):
    """(block, bytes, stream) for a malloc, (block,) for a free."""
    with gzip.open(path, "rt") as lines:
        return [tuple(map(int, line.split()[1:])) for line in lines if line[0] in "af"]


def moment_of_the_peak(events):
    live = most = at = 0
    sizes = {}
    for number, event in enumerate(events, 1):
        if len(event) == 3:
            sizes[event[0]] = rounded(event[1])
            live += sizes[event[0]]
            if live > most:
                most, at = live, number
        else:
            live -= sizes.pop(event[0])
    return at


def rounded(size):
    return (size + 511) // 512 * 512


class Player:
    def __init__(self):
        self.pool = ctypes.c_void_p()
        check(library.gpupool_default_pool(0, ctypes.byref(self.pool)))
        self.blocks, self.streams, self.tags = {}, {0: 0}, {}

    def stream(self, number):
        if number not in self.streams:
            new = u64()
            check(library.gpupool_stream_create(self.pool, ctypes.byref(new)))
            self.streams[number] = new.value
        return self.streams[number]

    def malloc(self, tag, size, stream=0):
        address = u64()
        check(library.gpupool_tag_push(tag))
        check(library.gpupool_malloc(self.pool, size, stream, ctypes.byref(address)))
        check(library.gpupool_tag_pop())
        return address.value

    def play(self, event):
        if len(event) == 1:
            address, _, stream = self.blocks.pop(event[0])
            check(library.gpupool_free(self.pool, address, stream))
            return
        number, size, stream = event
        stream = self.stream(stream)
        self.blocks[number] = (self.malloc(b"%d" % size, size, stream), size, stream)

    def holders(self):
        count = ctypes.c_size_t()
        check(library.gpupool_holders(self.pool, None, ctypes.sizeof(Holder), 0, ctypes.byref(count)))
        found = (Holder * count.value)()
        check(library.gpupool_holders(self.pool, found, ctypes.sizeof(Holder), count.value, ctypes.byref(count)))
        told = Counter()
        for holder in found:
            told[holder.tag.decode()] += holder.live_bytes
        return told


def play(events, marks, leak):
    player = Player()
    each = len(events) // marks if marks else len(events) + 1
    for number, event in enumerate(events, 1):
        player.play(event)
        if number % each == 0:
            if leak:
                player.malloc(b"planted", leak)
            check(library.gpupool_mark(b"%d" % (number // each)))


def tell_holders(events):
    player = Player()
    for event in events[: moment_of_the_peak(events)]:
        player.play(event)
    live = Counter()
    for _, size, _ in player.blocks.values():
        live[str(size)] += rounded(size)
    json.dump({"live": live, "samples": player.holders()}, sys.stdout)


if __name__ == "__main__":
    trace, what, *more = sys.argv[1:]
    if what == "holders":
        tell_holders(events_of(trace))
    elif what == "whole":
        play(events_of(trace), int(more[0]), 0)
    else:
        play(events_of(trace), int(what), 64 << 10)
