# SPDX-License-Identifier: Apache-2.0
"""`gpupool top` with the real driver: what NVML knows of the card, and what is not in pools."""

import contextlib
import json
import subprocess
import sys

import pytest
from programs import COMMAND

MIB = 1 << 20
HOLDER = f"""
import ctypes, gpupool
pool = gpupool.Pool(device=0)
block = pool.malloc({64 * MIB})
cuda, other = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
context, device = ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t({300 * MIB})) == 0
print("ready", flush=True)
input()
"""


@contextlib.contextmanager
def holder():
    """A process with 64 MiB in a pool, and 300 MiB beside it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", HOLDER], **pipes)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(60)


def look():
    done = subprocess.run([COMMAND, "top", "--once", "--json"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_in_no_pool_is_told():
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits", "-i", "0"]
    told = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout
    name, total = told.strip().split(", ")
    with holder() as process:
        shown = look()
        gpu = next(row for row in shown if row.get("number") == 0)
        row = next(row for row in shown if row.get("pid") == process.pid)
    assert gpu["name"] == name
    assert abs(gpu["total_bytes"] - int(total) * MIB) < MIB
    assert gpu["used_bytes"] + gpu["free_bytes"] <= gpu["total_bytes"]
    pool = next(pool for pool in row["pools"] if 64 * MIB <= pool["live_bytes"] < 65 * MIB)
    assert pool["device_id"] == gpu["gpu"]
    assert gpu["pools_bytes"] >= pool["reserved_bytes"] >= 64 * MIB
    assert gpu["used_bytes"] - gpu["pools_bytes"] >= 300 * MIB
    assert process.pid not in [later.get("pid") for later in look()]
    if not row["gpus"]:
        pytest.skip("NVML tells nothing of single processes here, as in many containers")
    assert row["gpus"][0]["other_bytes"] >= 300 * MIB
