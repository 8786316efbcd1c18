# SPDX-License-Identifier: Apache-2.0
"""Debug modes on a GPU; with GPUPOOL_DEBUG_BACKEND=sim on the simulated device. Each case runs in its own process,
because a fault ends the context.

debug_cases.py             runs all of them, and prints a JSON object for each
debug_cases.py NAME [SEED] runs one, in a pool that has done what the seed says
debug_cases.py --turns [N] runs those that find a bug N times each, with N seeds; ends with 1 if one was missed. Without
                           N, it is GPUPOOL_TEST_TURNS
"""

import concurrent.futures
import ctypes
import inspect
import json
import math
import os
import random
import struct
import subprocess
import sys
import time

MIB = 1 << 20
SEED = 0  # of what a pool has done before; 0: nothing
u64 = ctypes.c_uint64


class Lab:
    """A pool of GPU memory in debug modes, through the C functions."""

    def __init__(self, modes, max_chunk_bytes=0, seed=None):
        self.lib = ctypes.CDLL(os.environ.get("GPUPOOL_LIBRARY", "libgpupool.so.0.2"))
        os.environ["GPUPOOL_DEBUG"] = modes
        os.environ["GPUPOOL_BACKEND"] = os.environ.get("GPUPOOL_DEBUG_BACKEND", "cuda")
        self.ok(self.lib.gpupool_set_sampling(u64(1)))
        config = (ctypes.c_ubyte * 256)()
        self.ok(self.lib.gpupool_config_init(config, ctypes.c_size_t(128)))
        struct.pack_into("<Q", config, 48, max_chunk_bytes)
        self.pool = ctypes.c_void_p()
        self.ok(self.lib.gpupool_create(config, ctypes.byref(self.pool)))
        self.work(SEED if seed is None else seed)

    def work(self, seed):
        """What a program does with a pool, and rightly."""
        pick = random.Random(seed)
        live = []
        for _ in range(pick.randrange(40) if seed else 0):
            size = pick.randrange(1, 5 * MIB)
            live.append(self.malloc(size))
            assert self.write(live[-1], size)
            if pick.random() < 0.5:
                self.free(live.pop(pick.randrange(len(live))))

    def stream(self):
        stream = u64()
        self.ok(self.lib.gpupool_stream_create(self.pool, ctypes.byref(stream)))
        return stream.value

    def ok(self, status):
        if status != 0:
            raise RuntimeError(f"status {status}")

    def malloc(self, size, alignment=512):
        address = u64()
        self.ok(self.lib.gpupool_malloc_aligned(self.pool, u64(size), u64(alignment), u64(0), ctypes.byref(address)))
        return address.value

    def free(self, address):
        self.ok(self.lib.gpupool_free(self.pool, u64(address), u64(0)))

    def write(self, address, size):
        """Whether it went well, as far as the GPU tells."""
        if self.lib.gpupool_fill(self.pool, u64(address), 7, u64(size), u64(0)) != 0:
            return False
        return self.lib.gpupool_stream_synchronize(self.pool, u64(0)) == 0

    def read(self, address, size, stream=0):
        read = self.try_read(address, size, stream)
        assert read is not None
        return read

    def try_read(self, address, size, stream=0):
        """None if it faults."""
        host = ctypes.create_string_buffer(size)
        to = u64(ctypes.addressof(host))
        if self.lib.gpupool_copy(self.pool, to, u64(address), u64(size), u64(stream)) != 0:
            return None
        return host.raw if self.lib.gpupool_stream_synchronize(self.pool, u64(stream)) == 0 else None

    def check(self):
        count = u64()
        text = ctypes.create_string_buffer(8192)
        self.ok(self.lib.gpupool_check(self.pool, ctypes.byref(count), text, ctypes.c_size_t(8192)))
        return count.value, text.value.decode()


def case_poison_is_there_before_and_after():
    lab = Lab("poison,quarantine=64MiB")
    block = lab.malloc(3 * MIB)
    assert struct.unpack("<2I", lab.read(block + MIB, 8)) == (0x7FFF7FFF, 0x7FFF7FFF)
    lab.free(block)
    assert struct.unpack("<2I", lab.read(block + MIB, 8)) == (0xFFFEFFFE, 0xFFFEFFFE)


def case_a_write_one_byte_past_the_end_is_found():
    lab = Lab("canary")
    for size in (1000, 3 * MIB):
        before = lab.check()[0]
        block = lab.malloc(size)
        assert lab.write(block, size + 1)
        count, text = lab.check()
        assert count == before + 1, text
        assert f"1 byte was written beyond the end of a block, from +{size} to +{size}: 07" in text, text
        lab.free(block)


def case_a_write_after_the_free_is_found():
    lab = Lab("poison,quarantine=4MiB")
    block = lab.malloc(MIB)
    lab.free(block)
    assert lab.write(block, 64)
    for _ in range(4):
        lab.free(lab.malloc(2 * MIB))
    count, text = lab.check()
    assert count == 1, text
    assert "64 bytes were written after the free of a block" in text, text


def case_what_is_right_is_found_by_nobody():
    lab = Lab("poison,canary,fence=1MiB,guard,quarantine=64MiB")
    for turn in range(200):
        size = (turn * 7919 * 997) % (5 * MIB) + 1
        block = lab.malloc(size)
        assert lab.write(block, size)
        assert lab.read(block, 1) == b"\7"
        lab.free(block)
    assert lab.check()[0] == 0


def case_a_write_behind_a_fence_faults():
    lab = Lab("fence")
    block = lab.malloc(3 * MIB)
    assert lab.write(block, 3 * MIB)
    print("about to fault", flush=True)
    assert not lab.write(block, 3 * MIB + 1)


def case_a_read_behind_a_fence_faults():
    lab = Lab("fence")
    block = lab.malloc(3 * MIB)
    assert lab.write(block, 3 * MIB)
    assert lab.try_read(block + 3 * MIB - 1, 1) == b"\7"
    print("about to fault", flush=True)
    assert lab.try_read(block + 3 * MIB, 1) is None


def case_a_write_to_a_freed_fence_faults():
    lab = Lab("fence")
    block = lab.malloc(3 * MIB)
    assert lab.write(block, 3 * MIB)
    lab.free(block)
    print("about to fault", flush=True)
    assert not lab.write(block, 64)


def case_a_guard_faults():
    lab = Lab("guard", seed=0)  # later, it may be some block's turn, and not this one's
    block = lab.malloc(4 * MIB)
    lab.free(block)
    print("about to fault", flush=True)
    assert not lab.write(block, 64)


def case_a_read_after_the_free_is_nan():
    lab = Lab("poison")
    for size in (1000, 3 * MIB):
        block = lab.malloc(size)
        assert lab.write(block, size)
        lab.free(block)
        assert is_nan(lab.read(block, size)), size


def case_a_read_on_a_stream_that_was_not_recorded_is_nan():
    """Also while the memory is wanted by others."""
    lab = Lab("poison,quarantine=512MiB")
    block, other = lab.malloc(3 * MIB), lab.stream()
    assert lab.write(block, 3 * MIB)
    assert not is_nan(lab.read(block, 3 * MIB, other))
    lab.free(block)
    lab.work(SEED)
    lab.ok(lab.lib.gpupool_stream_synchronize(lab.pool, u64(0)))
    assert is_nan(lab.read(block, 3 * MIB, other))


def case_a_read_of_a_freed_fence_faults():
    lab = Lab("fence")
    block = lab.malloc(3 * MIB)
    assert lab.write(block, 3 * MIB)
    lab.free(block)
    print("about to fault", flush=True)
    assert lab.try_read(block, 64) is None


def case_a_read_of_a_freed_fence_on_a_stream_that_was_not_recorded_faults():
    lab = Lab("fence")
    block, other = lab.malloc(3 * MIB), lab.stream()
    assert lab.write(block, 3 * MIB)
    lab.read(block, 64, other)
    lab.free(block)
    lab.work(SEED)
    print("about to fault", flush=True)
    assert lab.try_read(block, 64, other) is None


def case_a_protected_block_is_read_and_not_written():
    lab = Lab("", 2 * MIB)
    block = lab.malloc(4 * MIB, 2 * MIB)
    assert lab.write(block, 4 * MIB)
    lab.ok(lab.lib.gpupool_protect(lab.pool, u64(block), 1))
    assert lab.read(block, 4) == b"\7\7\7\7"
    lab.ok(lab.lib.gpupool_protect(lab.pool, u64(block), 0))
    assert lab.write(block, 4 * MIB)
    lab.ok(lab.lib.gpupool_protect(lab.pool, u64(block), 1))
    print("about to fault", flush=True)
    assert not lab.write(block, 4)


def case_a_protected_block_is_read_as_fast():
    """Within 1 per cent: the least of 40 copies each, in turn."""
    lab = Lab("", 2 * MIB)
    size = 1024 * MIB
    block, target = lab.malloc(size, 2 * MIB), lab.malloc(size, 2 * MIB)
    least = {0: float("inf"), 1: float("inf")}
    for turn in range(80):
        access = turn % 2
        lab.ok(lab.lib.gpupool_protect(lab.pool, u64(block), access))
        begun = time.perf_counter()
        for _ in range(4):
            lab.ok(lab.lib.gpupool_copy(lab.pool, u64(target), u64(block), u64(size), u64(0)))
        lab.ok(lab.lib.gpupool_stream_synchronize(lab.pool, u64(0)))
        least[access] = min(least[access], time.perf_counter() - begun)
    assert least[1] <= 1.01 * least[0], least


def is_nan(read):
    return all(math.isnan(number) for (number,) in struct.iter_unpack("<f", read))


def run(name, seed=0):
    """What went wrong in a case; a process that dies of the access it announced has found it."""
    done = subprocess.run([sys.executable, __file__, name, str(seed)], capture_output=True, text=True, timeout=120,
                          check=False)
    died = done.returncode < 0 and "about to fault" in done.stdout
    return "" if done.returncode == 0 or died else done.stdout + done.stderr


def run_often(turns):
    """How often each case that finds a bug does so, eight processes at a time. Whether none was missed."""
    finding = [name for name, case in globals().items() if name.startswith("case_")
               and (name.endswith(("_is_found", "_is_nan")) or "about to fault" in inspect.getsource(case))]
    missed = []
    with concurrent.futures.ThreadPoolExecutor(8) as workers:
        for name in finding:
            failures = [text for text in workers.map(run, [name] * turns, range(1, turns + 1)) if text]
            print(f"{name}: {turns - len(failures)} of {turns}", flush=True)
            missed += failures
    print(*missed[:1], end="")
    return not missed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--turns"]:
        turns = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("GPUPOOL_TEST_TURNS", "3")
        sys.exit(0 if run_often(int(turns)) else 1)
    elif len(sys.argv) > 1:
        SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
        globals()[sys.argv[1]]()
    else:
        for case in [name for name in globals() if name.startswith("case_")]:
            print(json.dumps({"case": case, "failure": run(case)}), flush=True)
