#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pool on streams of other contexts: the primary one, one made by cuCtxCreate, a green one, another device's.

    contexts_fuzz.py [--seeds N] [--first SEED] [--steps N]

Each seed is a story with a pool of device 0. Random mallocs, frees and record_streams name streams of all contexts,
while any context, or none, is current on the thread, in any capture mode. Both must be as before after every call.
Blocks are filled on their streams behind work that is still under way, so that a block handed out too early would be
overwritten. Contexts end before the pool does. Exits with 1 at the first story that fails, and names its seed.
"""

import argparse
import ctypes
import random
import sys
from collections import Counter
from contextlib import contextmanager, suppress

import gpupool
from graphs_fuzz import LIMIT, MIB, SHORTAGES, Cuda, expect

NON_BLOCKING = 1
RESOURCE_SM = 1  # CU_DEV_RESOURCE_TYPE_SM
DEFAULT_STREAM = 1  # CU_GREEN_CTX_DEFAULT_STREAM
P = ctypes.c_void_p


class Context:
    """A context with two streams. `works` says whether its streams may touch the pool's memory."""

    def __init__(self, name, handle, streams, end, works=True):
        self.name, self.handle, self.streams, self.end, self.works = name, handle, streams, end, works


class Contexts(Cuda):
    """The driver, with what makes and changes contexts."""

    def devices(self):
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def state(self):
        """The thread's context and capture mode, which no call of a pool may change."""
        context, mode = P(), ctypes.c_int(self.RELAXED)
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        found = mode.value
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        return context.value, found

    @contextmanager
    def inside(self, context, mode=0):
        """With this context current, None for none at all, and this capture mode."""
        before, mode = P(), ctypes.c_int(mode)
        self._call("cuCtxGetCurrent", ctypes.byref(before))
        self._call("cuCtxSetCurrent", P(context))
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            self._call("cuCtxSetCurrent", before)

    def _streams(self, context):
        made = [P(), P()]
        with self.inside(context):
            for stream in made:
                self._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(NON_BLOCKING))
        return [stream.value for stream in made]

    def primary(self, device):
        context = P()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(device))

        def end():
            self._destroy_streams(found)
            self._call("cuDevicePrimaryCtxRelease_v2", ctypes.c_int(device))

        found = Context(f"device {device}'s", context.value, self._streams(context.value), end, works=device == 0)
        return found

    def created(self):
        context, popped = P(), P()
        self._call("cuCtxCreate_v2", ctypes.byref(context), ctypes.c_uint(0), ctypes.c_int(0))
        self._call("cuCtxPopCurrent_v2", ctypes.byref(popped))

        def end():
            self._call("cuCtxDestroy_v2", context)

        return Context("a created", context.value, self._streams(context.value), end)

    def green(self):
        """None where the driver has no green contexts."""
        if not hasattr(self._driver, "cuGreenCtxCreate"):
            return None
        every, part, rest = (ctypes.create_string_buffer(1024) for _ in range(3))
        groups, description, green, context = ctypes.c_uint(1), P(), P(), P()
        self._call("cuDeviceGetDevResource", ctypes.c_int(0), every, ctypes.c_int(RESOURCE_SM))
        self._call(
            "cuDevSmResourceSplitByCount", part, ctypes.byref(groups), every, rest, ctypes.c_uint(0), ctypes.c_uint(16)
        )
        self._call("cuDevResourceGenerateDesc", ctypes.byref(description), part, ctypes.c_uint(1))
        arguments = ctypes.byref(green), description, ctypes.c_int(0), ctypes.c_uint(DEFAULT_STREAM)
        self._call("cuGreenCtxCreate", *arguments)
        self._call("cuCtxFromGreenCtx", ctypes.byref(context), green)
        streams = [P(), P()]
        for stream in streams:
            arguments = ctypes.byref(stream), green, ctypes.c_uint(NON_BLOCKING), ctypes.c_int(0)
            self._call("cuGreenCtxStreamCreate", *arguments)

        def end():
            self._destroy_streams(found)
            self._call("cuGreenCtxDestroy", green)

        found = Context("a green", context.value, [stream.value for stream in streams], end)
        return found

    def _destroy_streams(self, context):
        for stream in context.streams:
            self._call("cuStreamDestroy_v2", P(stream))


class Block:
    def __init__(self, address, size, context, stream, value):
        self.address, self.size, self.context, self.stream, self.value = address, size, context, stream, value
        self.recorded = []


class Story:
    def __init__(self, driver, seed, told):
        self._driver, self._told = driver, told
        self._random = random.Random(seed)
        self._primary = driver.primary(0)
        contexts = [self._primary, driver.created(), driver.green()]
        contexts += [driver.primary(device) for device in range(1, driver.devices())]
        self._contexts = [context for context in contexts if context]
        mode = self._random.choice(["vmm", "driver"])
        self._pool = gpupool.Pool(0, limit_bytes=LIMIT, mode=mode)
        self._blocks = []

    def tell(self, steps):
        ways = {self._malloc: 40, self._record: 10, self._free: 34, self._give_back: 4, self._check_any: 10}
        for step in self._random.choices(list(ways), list(ways.values()), k=steps):
            step()
            self._told["steps"] += 1
            if self._random.random() < 0.01:
                self._end_one()
        self._end()

    def _call(self, function, *arguments):
        """One call of the pool, from any context and mode; both are the same afterwards."""
        current = self._random.choice([None, *(context.handle for context in self._contexts)])
        with self._driver.inside(current, self._random.randrange(3)):
            before = self._driver.state()
            try:
                return function(*arguments)
            finally:
                after = self._driver.state()
                expect(before == after, f"{function.__name__} left {after} of {before}")

    def _any_stream(self):
        context = self._random.choice([context for context in self._contexts if context.works])
        return context, self._random.choice(context.streams)

    def _fill(self, block, times):
        with self._driver.inside(block.context.handle):
            for number in range(times):
                value = block.value if number == times - 1 else 0xEE
                self._driver.fill(None, block.address, value, block.size, block.stream)

    def _malloc(self):
        context, stream = self._any_stream()
        size = self._random.choice([512, 4096, MIB, 3 * MIB]) + self._random.randrange(512)
        with suppress(*SHORTAGES):
            address = self._call(self._pool.malloc, size, stream)
            block = Block(address, size, context, stream, self._random.randrange(256))
            self._blocks.append(block)
            self._fill(block, self._random.choice([1, 50]))
            self._told["mallocs"] += 1

    def _record(self):
        """Another stream, of any context, reads the block; a device's that may not is named all the same."""
        if not self._blocks:
            return
        block, context = self._random.choice(self._blocks), self._random.choice(self._contexts)
        self._call(self._pool.record_stream, block.address, self._random.choice(context.streams))
        self._told["recorded on a stream of " + context.name] += 1

    def _free(self):
        if not self._blocks:
            return
        block = self._blocks.pop(self._random.randrange(len(self._blocks)))
        self._check(block)
        self._fill(block, 50)  # still under way when it is freed
        other = self._random.random() < 0.3
        context, stream = self._any_stream() if other else (block.context, block.stream)
        if stream != block.stream:  # a user frees on another stream only once that one waits
            with self._driver.inside(block.context.handle):
                self._driver.synchronize(block.stream)
        self._call(self._pool.free, block.address, stream)
        self._told["frees on a stream of " + context.name] += 1

    def _give_back(self):
        self._call(self._random.choice([self._pool.synchronize, self._pool.empty_cache, self._pool.validate]))

    def _check(self, block):
        with self._driver.inside(block.context.handle):
            found = self._driver.read(block.address, block.size, block.stream)
        expect(found == bytes([block.value]) * block.size, f"a block on a stream of {block.context.name} changed")

    def _check_any(self):
        if self._blocks:
            self._check(self._random.choice(self._blocks))
            self._told["checks"] += 1

    def _end_one(self):
        """A context ends whose blocks were freed, some of them a moment ago."""
        others = [context for context in self._contexts if context is not self._primary]
        if not others:
            return
        context = self._random.choice(others)
        for block in [block for block in self._blocks if block.context is context]:
            self._blocks.remove(block)
            self._call(self._pool.free, block.address, block.stream)
        for stream in context.streams:
            self._call(self._pool.release_stream, stream)
        self._contexts.remove(context)
        context.end()
        self._told["contexts ended"] += 1

    def _end(self):
        for block in self._blocks:
            self._check(block)
            self._call(self._pool.free, block.address, block.stream)
        self._blocks.clear()
        while len(self._contexts) > 1:
            self._end_one()
        self._call(self._pool.empty_cache)
        held = self._pool.stats().all.reserved_bytes.current
        expect(held == 0, f"{held} bytes are still reserved at the end")
        self._call(self._pool.close)
        self._primary.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=400)
    wanted = parser.parse_args()
    driver, told = Contexts(), Counter()
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        try:
            Story(driver, seed, told).tell(wanted.steps)
        except Exception as error:
            print(f"seed {seed}, after {told['steps']} steps of all: {type(error).__name__}: {error}")
            raise SystemExit(1) from error
    print(f"{wanted.seeds} seeds: " + ", ".join(f"{count} {name}" for name, count in sorted(told.items())))


if __name__ == "__main__":
    sys.exit(main())
