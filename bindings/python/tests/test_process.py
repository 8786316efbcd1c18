# SPDX-License-Identifier: Apache-2.0
"""Fork, exit and the order in which things go: each in a process of its own, which must end well and say nothing."""

import os
import subprocess
import sys
import textwrap

import pytest

SETUP = """
import gc, os, sys, threading
import gpupool
pool = gpupool.Pool()
buffer = pool.alloc(1000)
stream = pool.stream()
"""


def run(program: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", SETUP + textwrap.dedent(program)]
    environment = {**os.environ, "GPUPOOL_BACKEND": "sim"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_fork() -> None:
    run("""
        raw = pool.malloc(1000)
        default = gpupool.default_pool()
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: pool.malloc(1), lambda: pool.free(raw), lambda: pool.alloc(1), pool.stream,
                         pool.empty_cache, stream.synchronize, lambda: buffer.copy_to_host(), buffer.free):
                try:
                    call()
                except gpupool.ForkedError as error:
                    refused += error.status == gpupool.Status.FORKED
            assert pool.stats().all.allocated_blocks.current == 2
            pool.close()
            with gpupool.Pool() as mine:
                mine.alloc(1000).free()
            assert gpupool.default_pool() is not default
            gpupool.default_pool().free(gpupool.default_pool().malloc(1000))
            del buffer, stream, pool
            gc.collect()
            os._exit(0 if refused == 8 else refused + 100)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        pool.free(raw)
    """)


def test_a_forked_child_that_ends_as_programs_do() -> None:
    run("""
        child = os.fork()
        if child != 0:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)


@pytest.mark.parametrize(
    "program",
    [
        "",
        "cycle = [buffer, pool]; cycle.append(cycle); del buffer, pool",
        "import numpy; array = numpy.from_dlpack(buffer)",
        "array = buffer.numpy(); del pool, buffer",
        "capsule = buffer.__dlpack__()",
        "borrowed = gpupool.from_dlpack(buffer)",
        "pool.close()",
        "gpupool.default_pool().malloc(1000)",
        "sys.modules.clear()",
        "import atexit; atexit.register(lambda: (pool.malloc(1), buffer.free(), pool.close()))",
        "sys.exit(0)",
    ],
)
def test_exit_with_live_buffers(program: str) -> None:
    run(program)


def test_exit_with_callbacks() -> None:
    run("""
        import ctypes
        memory = {}
        def malloc(size, stream):
            block = ctypes.create_string_buffer(size + 4096)
            address = -(-ctypes.addressof(block) // 4096) * 4096
            memory[address] = block
            return address
        other = gpupool.Pool(upstream=(malloc, lambda address, size, stream: memory.pop(address)))
        kept = other.alloc(1000)
        other.set_oom_handler(lambda size, attempt: False)
        gpupool.set_log(lambda level, message: None, "debug")
    """)


def test_exit_with_threads_at_work() -> None:
    run("""
        def work():
            while True:
                pool.free(pool.malloc(1000))
                pool.alloc(5000, stream)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(1000):
            pool.free(pool.malloc(1000))
    """)


def test_threads_that_end_with_buffers() -> None:
    run("""
        kept = []
        for i in range(20):
            thread = threading.Thread(target=lambda: kept.append(pool.alloc(1000)))
            thread.start()
            thread.join()
        kept.clear()
        assert pool.memory_allocated() == 1024
        pool.validate()
    """)
