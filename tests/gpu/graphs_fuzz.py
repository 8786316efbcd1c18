#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs keep their memory, with real CUDA graphs: random captures, frees, growth, give-backs and replays.

    graphs_fuzz.py [--backend cuda|sim] [--seeds N] [--first SEED] [--steps N]

Each seed is a story with its own pools. Captures queue fills and copies on blocks of a pool. Each graph still held may
be replayed at any time: its fills and copies must find their addresses mapped, the blocks that were live at its
capture's end must then have exactly the bytes that it writes, and nothing else may have changed. Everything that ended
captures ever used is read again and again. Needs the package gpupool and, for cuda, libcuda.so.1; the simulated device
("sim") runs the same stories without a GPU. Exits with 1 at the first story that fails, and names its seed.
"""

import argparse
import ctypes
import os
import random
import sys
from collections import Counter
from contextlib import contextmanager, suppress

import gpupool
from gpupool import sim

KIB, MIB = 1 << 10, 1 << 20
LIMIT = 48 * MIB  # of each pool, so that memory moves
STREAMS = 4
GRAPHS = 5  # at a time
DEBUG = os.environ.get("GPUPOOL_DEBUG")
SHORTAGES = (gpupool.OutOfMemoryError, gpupool.OverLimitError)


class Cuda:
    """The driver, for what a program does with its memory."""

    GLOBAL, RELAXED = 0, 2  # CUstreamCaptureMode
    ROOM = 16 * MIB

    def __init__(self):
        self._driver = ctypes.CDLL("libcuda.so.1")
        device, context, host = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(self.ROOM))
        self._host = host

    def _call(self, function, *arguments):
        result = getattr(self._driver, function)(*arguments)
        if result != 0:
            name = ctypes.c_char_p()
            self._driver.cuGetErrorName(result, ctypes.byref(name))
            raise RuntimeError(f"{function}: {(name.value or b'an unknown error').decode()} ({result})")

    @contextmanager
    def _undisturbed(self):
        """Calls in here are the program's own and none of a capture's, whichever stream captures."""
        mode = ctypes.c_int(self.RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def begin(self, stream, is_relaxed):
        mode = self.RELAXED if is_relaxed else self.GLOBAL
        self._call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), ctypes.c_int(mode))

    def end(self, stream, _capture):
        graph, program = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        with self._undisturbed():
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, ctypes.c_ulonglong(0))
            self._call("cuGraphDestroy", graph)
        return program

    def launch(self, graph, stream):
        with self._undisturbed():
            self._call("cuGraphLaunch", graph, ctypes.c_void_p(stream))

    def destroy(self, graph):
        with self._undisturbed():
            self._call("cuGraphExecDestroy", graph)

    def fill(self, _pool, address, value, size, stream):
        size = ctypes.c_size_t(size)
        where = ctypes.c_uint64(address), ctypes.c_ubyte(value), size, ctypes.c_void_p(stream)
        self._call("cuMemsetD8Async", *where)

    def copy(self, _pool, to, source, size, stream):
        where = ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)
        self._call("cuMemcpyDtoDAsync_v2", *where)

    def synchronize(self, stream):
        with self._undisturbed():
            self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def read(self, address, size, stream):
        size = min(size, self.ROOM)
        with self._undisturbed():
            where = ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.c_void_p(stream)
            self._call("cuMemcpyDtoHAsync_v2", self._host, *where)
            self._call("cuStreamSynchronize", ctypes.c_void_p(stream))
        return ctypes.string_at(self._host, size)

    def faults(self):
        return ""  # each of them is an error of a call


class Sim:
    """The simulated device, whose addresses the host can read."""

    def __init__(self):
        sim.configure(0, data=True, capacity_bytes=1 << 30)
        self._pool = gpupool.Pool(0, backend="sim")  # for what is no pool's
        self._captures = {}

    def begin(self, stream, _is_relaxed):
        self._captures[stream] = sim.capture(stream)
        self._captures[stream].__enter__()

    def end(self, stream, capture):
        self._captures.pop(stream).__exit__(None, None, None)
        return capture

    def launch(self, graph, stream):
        sim.launch(graph, stream)

    def destroy(self, _graph):
        pass

    def fill(self, pool, address, value, size, stream):
        pool.fill(address, value, size, stream)

    def copy(self, pool, to, source, size, stream):
        pool.copy(to, source, size, stream)

    def synchronize(self, stream):
        sim.work(1, stream)
        self._pool.synchronize()
        sim.advance(10_000_000)

    def read(self, address, size, stream):
        sim.work(1, stream, address=address, size=size)  # refused where it is not mapped
        self.synchronize(stream)
        return ctypes.string_at(address, size)

    def faults(self):
        found = sim.faults()
        return found.last if found.count else ""


class Block:
    """content: the bytes that it must have, as runs [(count, value)]; None: nobody knows."""

    def __init__(self, pool, address, size, stream):
        self.pool, self.address, self.size, self.stream = pool, address, size, stream
        self.content = None

    def fill(self, value):
        self.content = [(self.size, value)]

    def copy_from(self, source, size):
        self.content = first_bytes(source.content, size) + last_bytes(self.content, self.size - size)


def first_bytes(runs, size):
    taken = []
    for count, value in runs:
        if size > 0:
            taken.append((min(count, size), value))
        size -= count
    return taken


def last_bytes(runs, size):
    return first_bytes(runs[::-1], size)[::-1]


class Graph:
    """kept: the blocks that are live at the capture's end, which each replay writes; used: all there ever were."""

    def __init__(self, pool, kind, stream):
        self.pool, self.kind, self.stream = pool, kind, stream
        self.is_own = kind != "aware"
        self.capture = 0
        self.program = None
        self.used, self.live, self.kept = [], [], []
        self.has_run = False


class Story:
    """One seed's: kinds of pools, then random steps."""

    def __init__(self, device, backend, seed, told):
        self._device, self._backend, self._told = device, backend, told
        self._random = random.Random(seed)
        self._lab = gpupool.Pool(0, backend=backend)
        self._made = [self._lab.stream() for _ in range(STREAMS + 1)]
        *self._streams, self._watcher = (int(stream) for stream in self._made)
        self._other = gpupool.Pool(0, backend=backend, limit_bytes=LIMIT)
        self._kinds = (("aware",), ("own",), ("child",), ("aware", "own", "child"))[seed % 4]
        self._aware = gpupool.Pool(0, backend=backend, limit_bytes=LIMIT, capture_aware=True)
        self._outside, self._graphs = [], []

    def tell(self, steps):
        weights = {
            self.malloc_outside: 18,
            self.free_outside: 14,
            self.begin: 6,
            self.in_capture: 24,
            self.end_capture: 6,
            self.replay: 10,
            self.free_after_capture: 4,
            self.release: 3,
            self.run_out: 3,
            self.give_back: 6,
            self.check_everything: 2,
        }
        for step in self._random.choices(list(weights), list(weights.values()), k=steps):
            step()
            self._told["steps"] += 1
        self.end()

    # ---- choosing

    def _pick(self, things):
        return self._random.choice(things) if things else None

    def _any_size(self):
        least, most = self._pick([(1, 4 * KIB), (1, MIB), (MIB, 3 * MIB), (1, 2 * MIB), (2 * MIB, 5 * MIB)])
        return self._random.randint(least, most)

    def _is_capturing(self, stream):
        return any(graph.program is None and graph.stream == stream for graph in self._graphs)

    def _free_stream(self):
        return self._pick([stream for stream in self._streams if not self._is_capturing(stream)])

    def _ended(self):
        return [graph for graph in self._graphs if graph.program is not None]

    def _under_way(self):
        return [graph for graph in self._graphs if graph.program is None]

    # ---- outside of captures

    def _malloc(self, pool, size, stream):
        """None for a shortage."""
        with suppress(*SHORTAGES):
            return Block(pool, pool.malloc(size, stream), size, stream)
        return None

    def malloc_outside(self):
        stream = self._free_stream()
        block = stream and self._malloc(self._pick([self._aware, self._other]), self._any_size(), stream)
        if not block:
            return
        value = self._random.randrange(256)
        self._device.fill(block.pool, block.address, value, block.size, stream)
        block.fill(value)
        self._outside.append(block)

    def free_outside(self):
        block = self._pick(self._outside)
        if block is None or (block.pool is self._other and self._is_capturing(block.stream)):
            return
        self._settle()
        self._check(block, "a block outside of captures")
        self._outside.remove(block)
        stream = self._free_stream() if self._random.random() < 0.3 else None
        block.pool.free(block.address, stream or block.stream)

    def run_out(self):
        """The other pool takes all that its limit has left, so that it gives back what it can."""
        stream = self._free_stream()
        block = stream and self._malloc(self._other, self._random.randint(LIMIT // 4, LIMIT), stream)
        if block:
            self._device.fill(block.pool, block.address, 0xEE, block.size, stream)
            block.pool.free(block.address, stream)

    def give_back(self):
        # A child gives back what it is asked for.
        of_graphs = [graph.pool for graph in self._graphs if graph.kind != "child"]
        pool = self._pick([self._aware, self._other, *of_graphs])
        way = self._random.randrange(4)
        if way == 0:
            pool.synchronize()
        elif way == 1:
            pool.empty_cache()
        elif way == 2:
            pool.trim(self._random.randrange(LIMIT))
        else:
            pool.validate()

    # ---- graphs

    def begin(self):
        stream = self._free_stream()
        if stream is None or len(self._graphs) == GRAPHS:
            return
        kind, pool = self._pick(self._kinds), self._aware
        if kind == "own":
            pool = gpupool.Pool(0, backend=self._backend, limit_bytes=LIMIT)
        elif kind == "child":
            pool = self._other.create_child()
        graph = Graph(pool, kind, stream)
        self._device.synchronize(stream)  # for what checks read while it captures
        self._device.begin(stream, self._random.random() < 0.5)
        graph.capture = pool.capture_id(stream)
        expect(graph.capture != 0, "the pool does not see the capture")
        self._graphs.append(graph)
        self._told["captures"] += 1

    def in_capture(self):
        graph = self._pick(self._under_way())
        if graph is None:
            return
        way = self._random.random()
        if len(graph.live) < 2 or way < 0.45:
            block = self._malloc(graph.pool, self._any_size(), graph.stream)
            if block:
                graph.used.append(block)
                graph.live.append(block)
                self._fill_in(graph, block)
        elif way < 0.6:
            self._fill_in(graph, self._pick(graph.live))
        elif way < 0.75:
            to, source = self._random.sample(graph.live, 2)
            size = self._random.randint(1, min(to.size, source.size))
            self._device.copy(graph.pool, to.address, source.address, size, graph.stream)
            to.copy_from(source, size)
        else:
            block = self._pick(graph.live)
            graph.live.remove(block)
            block.pool.free(block.address, graph.stream)

    def _fill_in(self, graph, block):
        value = self._random.randrange(256)
        self._device.fill(graph.pool, block.address, value, block.size, graph.stream)
        block.fill(value)

    def end_capture(self):
        graph = self._pick(self._under_way())
        if graph is None:
            return
        graph.program = self._device.end(graph.stream, graph.capture)
        graph.kept = list(graph.live)
        expect(graph.pool.capture_id(graph.stream) == 0, "the capture has ended, and the pool does not see it")

    def replay(self):
        graph, stream = self._pick(self._ended()), self._free_stream()
        if graph is None or stream is None:
            return
        self._device.launch(graph.program, stream)
        self._device.synchronize(stream)
        graph.has_run = True
        self._told["replays"] += 1
        self.check_everything()

    def free_after_capture(self):
        graph = self._pick(self._ended())
        block = graph and self._pick(graph.live)
        if not block:
            return
        stream = self._free_stream() if self._is_capturing(block.stream) else block.stream
        if stream is not None:
            graph.live.remove(block)
            block.pool.free(block.address, stream)

    def release(self):
        """The graph is gone, and its memory the pool's again."""
        graph = self._pick(self._ended())
        # A pool that ends while a stream which it has seen captures cannot wait for that stream.
        if graph is None or (graph.is_own and self._under_way()):
            return
        self._device.destroy(graph.program)
        self._graphs.remove(graph)
        graph.pool.release_capture(graph.capture)
        self._aware.release_capture(graph.capture)  # no error where the pool has not seen it
        for block in graph.live:
            block.pool.free(block.address, gpupool.STREAM_UNKNOWN)
        if graph.is_own:
            graph.pool.validate()
            graph.pool.close()
        self.check_everything()

    # ---- what must be so

    def _settle(self):
        for stream in self._streams:
            if not self._is_capturing(stream):
                self._device.synchronize(stream)

    def _check(self, block, what):
        found = self._device.read(block.address, block.size, self._watcher)
        wanted = b"".join(bytes([value]) * count for count, value in block.content)
        expect(found == wanted, f"{what} changed: {block.size} bytes at {block.address:#x}")

    def check_everything(self):
        self._settle()
        for block in self._outside:
            self._check(block, "a block outside of captures")
        for graph in self._ended():
            for block in graph.used:
                # Of what was freed since, debug modes may write more.
                if graph.has_run and block in graph.kept and (block in graph.live or not DEBUG):
                    self._check(block, "what a graph wrote")
                else:
                    self._device.read(block.address, block.size, self._watcher)
        self._told["checks"] += 1
        expect(not self._device.faults(), self._device.faults())

    def end(self):
        while self._under_way():
            self.end_capture()
        self.check_everything()
        while self._ended():
            self.release()
        for block in self._outside:
            block.pool.free(block.address, block.stream)
        self._settle()  # the fills of debug modes
        for pool in (self._aware, self._other):
            pool.empty_cache()
            held = pool.stats().all.reserved_bytes.current
            expect(held == 0, f"{held} bytes are still reserved when all graphs are gone")
            pool.validate()
            pool.close()
        for stream in self._made:
            stream.close()
        self._lab.close()


def expect(is_so, words):
    if not is_so:
        raise AssertionError(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["cuda", "sim"], default="cuda")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    wanted = parser.parse_args()
    device = Cuda() if wanted.backend == "cuda" else Sim()
    told = Counter()
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        try:
            Story(device, wanted.backend, seed, told).tell(wanted.steps)
        except Exception as error:
            print(
                f"seed {seed} on {wanted.backend}, after {told['steps']} steps of all: {type(error).__name__}: {error}"
            )
            raise SystemExit(1) from error
    counts = ", ".join(f"{told[name]} {name}" for name in ("captures", "replays", "checks"))
    print(f"{wanted.seeds} seeds on {wanted.backend}: {counts}, every byte as it must be")


if __name__ == "__main__":
    sys.exit(main())
