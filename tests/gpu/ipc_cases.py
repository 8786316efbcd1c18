# SPDX-License-Identifier: Apache-2.0
"""One block and two processes: each sees what the other writes, in each order of ending, and nothing is left.

ipc_cases.py ORDER [BACKEND]    ORDER: exporter, importer or killed is the one that ends first; or flat
"""

import contextlib
import ctypes
import multiprocessing
import os
import sys
import time

import gpupool

MIB = 1 << 20
SIZE = 300 * MIB


def make_pool():
    return gpupool.Pool(sys.argv[2] if len(sys.argv) > 2 else "cuda")


def bytes_of(pool, stream, address, size):
    host = ctypes.create_string_buffer(size)
    pool.copy(ctypes.addressof(host), address, size, stream)
    stream.synchronize()
    return host.raw


def assert_filled(pool, stream, address, byte):
    assert bytes_of(pool, stream, address, SIZE) == bytes([byte]) * SIZE


def export(order, pipe, argv):
    sys.argv = argv
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: the importer is a sibling
    with make_pool() as pool, pool.stream() as stream:
        address = pool.malloc(SIZE, stream)
        pool.fill(address, 1, SIZE, stream)
        stream.synchronize()
        start = time.perf_counter()
        handle = pool.export_block(address)
        print(f"export of {SIZE // MIB} MiB: {(time.perf_counter() - start) * 1e6:.0f} us")
        pipe.send(handle)
        assert pipe.recv() == "written"
        assert_filled(pool, stream, address, 2)
        with contextlib.suppress(gpupool.UnavailableError):
            pool.sleep()
            raise AssertionError("a pool with an exported block slept")
        pool.free(address, stream)
        other = pool.malloc(SIZE, stream)
        assert other != address, "memory that another process uses was reused"
        pool.fill(other, 3, SIZE, stream)
        stream.synchronize()
        if order == "exporter":
            os._exit(0)
        pipe.send("freed")
        assert pipe.recv() == "closing"
        pool.free(other, stream)
        deadline = time.monotonic() + 30
        while pool.stats().all.active_bytes.current != 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert pool.stats().all.active_bytes.current == 0, pool.report()
        pool.empty_cache()
        assert pool.stats().all.reserved_bytes.current == 0, pool.report()
        pool.validate()


def import_it(order, pipe, argv):
    sys.argv = argv
    with make_pool() as pool, pool.stream() as stream:
        handle = pipe.recv()
        start = time.perf_counter()
        block = pool.import_block(handle)
        print(f"import of {SIZE // MIB} MiB: {(time.perf_counter() - start) * 1e6:.0f} us")
        assert block.size == SIZE
        assert_filled(pool, stream, block.address, 1)
        pool.fill(block.address, 2, SIZE, stream)
        stream.synchronize()
        pipe.send("written")
        if order == "exporter":
            with contextlib.suppress(EOFError):
                raise AssertionError(pipe.recv())
        else:
            assert pipe.recv() == "freed"
        assert_filled(pool, stream, block.address, 2)
        if order == "killed":
            pipe.send("closing")
            os._exit(0)  # with the import
        block.close()
        with contextlib.suppress(gpupool.UnavailableError):
            pool.import_block(handle)
            raise AssertionError("a block that was freed was imported")
        if order == "importer":
            pipe.send("closing")


def run(order):
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    ends = ((export, here), (import_it, there))
    processes = [context.Process(target=target, args=(order, pipe, sys.argv)) for target, pipe in ends]
    for process in processes:
        process.start()
    here.close()
    there.close()
    for process in processes:
        process.join(240)
    codes = [process.exitcode for process in processes]
    assert codes == [0, 0], codes


def flat():
    """A thousand exports and imports in one process leave no descriptor, and no memory of the device or the host."""
    with make_pool() as pool, make_pool() as other:
        for i in range(1100):
            if i == 100:
                before = figures(pool)
            address = pool.malloc(2 * MIB)
            with other.import_block(pool.export_block(address)):
                pool.free(address)
        after = figures(pool)
        print(f"descriptors, host KiB, device MiB: {before} before, {after} after")
        assert after[0] <= before[0] + 2
        assert after[1] <= before[1] + 4096
        assert after[2] <= before[2] + 64


def figures(pool):
    with open("/proc/self/status", encoding="ascii") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    info = pool.device_info()
    return len(os.listdir("/proc/self/fd")), resident, (info.total_bytes - info.free_bytes) // MIB


if __name__ == "__main__":
    flat() if sys.argv[1] == "flat" else run(sys.argv[1])
