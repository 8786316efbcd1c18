#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs in several languages on one card, with random working sets: is any out of memory, and how fast are they?

    one_card.py [--device cuda:0] [--cap 80GiB] [--minutes 10] [--programs torch,cupy,c=PATH,rust=PATH]

`PATH` is a compiled one_card.c, or another program that speaks as it does. `pool` is Python with gpupool alone. All are
members of one group whose limit is `cap`, of which at most the part `--live` is live.

At once: in each turn each program gets a new working set; those that shrink go first, then all the others grow and all
work at the same time. In turn: only one program at a time gets a new working set and works, so that it shares nothing
but memory. A turn replaces `--times` blocks: how much work there is between two working sets decides how much of the
time the moving of memory takes. Then each program is started alone, in no group, with the same turns; its speed is the
time of its turns alone over that beside the others. Ends with 1 if a program was out of memory, or if it found wrong
bytes.

    GPUPOOL_BACKEND=sim GPUPOOL_SIM_SHARED=one GPUPOOL_SIM=capacity=2GiB one_card.py --device sim --cap 1GiB \
        --live 0.9 --minutes 0.1 --programs pool,pool
"""

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import gpupool

PROGRAM_TURNS = 60  # of each program in the part that measures speed, at most
MIB = 1 << 20
WAIT = 5  # seconds: a busy machine may be late


# ---- a program: keeps a working set of random blocks, each filled with a byte of its own


class Blocks:
    """What the frameworks have in common: how they take a block, fill it, and read a byte of it."""

    def __init__(self, take, fill, read, finish):
        self.take, self.fill, self.read, self.finish = take, fill, read, finish


def torch_blocks(device):
    gpupool.install("torch")
    torch = importlib.import_module("torch")

    return Blocks(
        lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
        lambda block, byte: block.fill_(byte),
        lambda block, at: int(block[at]),
        torch.cuda.synchronize,
    )


def cupy_blocks(device):
    gpupool.install("cupy")
    cupy = importlib.import_module("cupy")

    return Blocks(
        lambda size: cupy.empty(size, dtype=cupy.uint8),
        lambda block, byte: block.fill(byte),
        lambda block, at: int(block[at]),
        cupy.cuda.Device().synchronize,
    )


class PoolBlock:
    def __init__(self, pool, stream, size):
        self.pool, self.stream, self.size = pool, stream, size
        self.address = 0
        self.address = pool.malloc(size, stream)

    def __del__(self):
        if self.address != 0:
            self.pool.free(self.address, self.stream)

    def fill(self, byte):
        self.pool.fill(self.address, byte, self.size, self.stream)

    def read(self, at):
        byte = ctypes.c_ubyte()
        self.pool.copy(ctypes.addressof(byte), self.address + at, 1, self.stream)
        self.stream.synchronize()
        return byte.value


def pool_blocks(device):
    pool = gpupool.Pool(device, share_wait=WAIT)
    stream = pool.stream()
    return Blocks(lambda size: PoolBlock(pool, stream, size), PoolBlock.fill, PoolBlock.read, stream.synchronize)


class Program:
    """Obeys "become BYTES LARGEST SEED" and "work TIMES SEED", a line each; answers "ok NANOSECONDS", or what went
    wrong."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.live = []  # block, size, byte

    def drop(self, at):
        self.live[at], self.live[-1] = self.live[-1], self.live[at]
        block, size, byte = self.live.pop()
        if self.blocks.read(block, size - 1) != byte:
            raise ValueError("wrong bytes")

    def become(self, wanted, largest, seed):
        numbers = random.Random(seed)
        now = sum(size for _, size, _ in self.live)
        while now > wanted:
            at = numbers.randrange(len(self.live))
            now -= self.live[at][1]
            self.drop(at)
        while now < wanted:
            size = min(wanted - now, numbers.randint(1, largest // MIB) * MIB)
            block, byte = self.blocks.take(size), numbers.randrange(1, 256)
            self.blocks.fill(block, byte)
            self.live.append((block, size, byte))
            now += size

    def work(self, times, seed):
        """Replaces blocks by others of the same size, and fills them."""
        numbers = random.Random(seed)
        for _ in range(times if self.live else 0):
            at = numbers.randrange(len(self.live))
            size = self.live[at][1]
            self.drop(at)
            block, byte = self.blocks.take(size), numbers.randrange(1, 256)
            self.blocks.fill(block, byte)
            self.live.append((block, size, byte))

    def obey(self, words):
        try:
            start = time.perf_counter_ns()
            getattr(self, words[0])(*(int(word) for word in words[1:]))
            self.blocks.finish()
            return f"ok {time.perf_counter_ns() - start}"
        except Exception as error:  # of any framework
            return f"failed {type(error).__name__} {' '.join(str(error).split())}"


def be(kind, device):
    program = Program({"torch": torch_blocks, "cupy": cupy_blocks, "pool": pool_blocks}[kind](device))
    for line in sys.stdin:
        print(program.obey(line.split()), flush=True)


# ---- the card: starts programs, and tells them what to do


class Member:
    def __init__(self, kind, device, environment):
        self.kind = kind
        name, _, path = kind.partition("=")
        command = [path, device] if path else [sys.executable, __file__, "--be", name, "--device", device]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.live = 0
        self.failures = []

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def hear(self):
        """Nanoseconds; notes what went wrong."""
        answer = self.process.stdout.readline().split(maxsplit=1)
        if answer[:1] == ["ok"]:
            return int(answer[1])
        self.failures.append(answer[-1].strip() if answer else "ended")
        return 0

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(60)


def at_once(members, live, largest, numbers, deadline):
    """All at the same time. Returns the turns."""
    turns = 0
    while time.monotonic() < deadline and not any(each.failures for each in members):
        weights = [numbers.random() ** 2 for _ in members]
        wanted = [int(live * weight / sum(weights)) // MIB * MIB for weight in weights]
        shrink = [(each, size) for each, size in zip(members, wanted, strict=True) if size < each.live]
        grow = [(each, size) for each, size in zip(members, wanted, strict=True) if size >= each.live]
        for some in (shrink, grow):
            for each, size in some:
                each.tell("become", size, largest, numbers.getrandbits(32))
            for each, size in some:
                each.hear()
                each.live = size
        for each in members:
            each.tell("work", 20, numbers.getrandbits(32))
        for each in members:
            each.hear()
        turns += 1
    return turns


def turns_of(count, live, numbers, most):
    """Whose turn it is, and what it then has."""
    has = [0] * count
    for _ in range(most * count):
        who = numbers.randrange(count)
        room = live - sum(has) + has[who]
        has[who] = int(room * numbers.random()) // MIB * MIB
        yield who, has[who], numbers.getrandbits(32)


def take_turn(member, size, largest, seed, times):
    member.tell("become", size, largest, seed)
    spent = member.hear()
    member.tell("work", times, seed)
    return spent + member.hear()


def in_turn(members, turns, largest, times, deadline):
    """One at a time. Returns the turns that were taken, and how long each took."""
    taken = []
    for who, size, seed in turns:
        if time.monotonic() > deadline or any(each.failures for each in members):
            break
        taken.append((who, size, seed, take_turn(members[who], size, largest, seed, times)))
    return taken


def alone(kind, given, turns, largest):
    """The nanoseconds of each of a program's turns, with nobody beside it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOL_SHARE")}
    member = Member(kind, given.device, environment | {"GPUPOOL_LIMIT": given.cap})
    times = [take_turn(member, size, largest, seed, given.times) for size, seed in turns]
    member.end()
    return times, member.failures


def main(given):
    cap = gpupool.parse_size(given.cap)
    live = int(cap * given.live)
    largest = max(MIB, min(512 * MIB, cap // 64))
    kinds = given.programs.split(",")
    numbers = random.Random(given.seed)
    part = given.minutes * 60 / 3
    with tempfile.TemporaryDirectory() as folder:
        group = {"GPUPOOL_SHARE": "card", "GPUPOOL_SHARE_DIR": folder, "GPUPOOL_SHARE_LIMIT": given.cap}
        members = [Member(kind, given.device, os.environ | group) for kind in kinds]
        rounds = at_once(members, live, largest, numbers, time.monotonic() + part)
        print(f"at once: {rounds} turns of {len(kinds)} programs")
        for each in members:
            each.tell("become", 0, largest, 0)
            each.hear()
        turns = list(turns_of(len(kinds), live, numbers, PROGRAM_TURNS))
        taken = in_turn(members, turns, largest, given.times, time.monotonic() + part)
        for each in members:
            each.end()
    failed = [f"{each.kind}: {failure}" for each in members for failure in each.failures]
    for who, kind in enumerate(kinds):
        own = [(size, seed, spent) for turn_of, size, seed, spent in taken if turn_of == who]
        times, failures = alone(kind, given, [(size, seed) for size, seed, _ in own], largest)
        failed += [f"{kind} alone: {failure}" for failure in failures]
        beside = sum(spent for _, _, spent in own)
        # The first turn sets up the device, or was in the part before.
        speed = sum(times[1:]) / max(1, beside - (own[0][2] if own else 0))
        print(json.dumps({"program": kind, "turns": len(own), "speed": round(speed, 3)}))
    for each in failed:
        print(f"FAILED {each}")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cap", default="80GiB")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--programs", default="torch,cupy,pool")
    parser.add_argument("--times", type=int, default=20, help="blocks that are replaced in a turn")
    parser.add_argument("--live", type=float, default=0.97)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--be", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.be:
        be(given.be, given.device)
    else:
        sys.exit(main(given))
