# SPDX-License-Identifier: Apache-2.0
"""The memory handler for cuQuantum's Python packages, called through its addresses as they do."""

import os
import subprocess
import sys

PROGRAM = """
import ctypes, gpupool
context, alloc, free, name = gpupool.cuquantum.mem_handler(0)
assert name == "gpupool"
pool = gpupool.default_pool(0)
stream = int(owner := pool.stream())
alloc = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(alloc)
free = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(free)
address = ctypes.c_void_p()
assert alloc(context, ctypes.byref(address), 1 << 20, stream) == 0
block = pool.block_info(address.value)
assert (block.stream, block.requested_bytes) == (stream, 1 << 20)
assert free(context, address, 1 << 20, stream) == 0
assert free(context, ctypes.c_void_p(64), 1 << 20, stream) == 1
assert alloc(context, ctypes.byref(address), 1 << 45, stream) == 1
assert pool.memory_allocated() == 0
try:
    gpupool.cuquantum.mem_handler("0")
except TypeError as error:
    print(error)
"""


def test_it_serves_the_default_pool() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "GPUPOOL_BACKEND": "sim"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "device" in done.stdout
