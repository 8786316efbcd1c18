# SPDX-License-Identifier: Apache-2.0
"""Programs without gpupool under `gpupool run`, and whole processes that sleep, on a GPU.

run_cases.py [CASE...]    all, if none is named; GPUPOOL_COMMAND is the command

It prints what it measured, and ends with 1 if a case failed. A case whose framework or driver is not there says so, and
is no failure.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback

from programs import COMMAND as PACKAGED

COMMAND = os.environ.get("GPUPOOL_COMMAND", str(PACKAGED))
LIMIT = 240  # seconds for each program and each command
MIB = 1 << 20
GIB = 1 << 30


class NotHere(Exception):
    """What a case needs is not on this machine."""


# The driver by ctypes. A block of 1 GiB keeps its bytes over a sleep; the words on standard input are what to do next.
DRIVER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
def must(result, what):
    assert result == 0, f"{what}: {result}"
must(cuda.cuInit(0), "cuInit")
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
"""
PLAIN = (
    DRIVER
    + """
SIZE = 1 << 30
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(SIZE)), "cuMemAlloc")
must(cuda.cuMemsetD8_v2(address, ctypes.c_ubyte(7), ctypes.c_size_t(SIZE)), "cuMemsetD8")
must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
print("ready", flush=True)
host = (ctypes.c_ubyte * SIZE)()
for line in sys.stdin:
    must(cuda.cuMemcpyDtoH_v2(host, address, ctypes.c_size_t(SIZE)), "cuMemcpyDtoH")
    print(bytes(host) == bytes([7]) * SIZE, flush=True)
"""
)
POOLED = """
import ctypes, sys, gpupool
SIZE = 1 << 30
pool = gpupool.Pool("cuda")
block = pool.malloc(SIZE)
pool.fill(block, 7, SIZE)
pool.synchronize()
print("ready", flush=True)
host = (ctypes.c_ubyte * SIZE)()
for line in sys.stdin:
    pool.copy(ctypes.addressof(host), block, SIZE)
    pool.synchronize()
    print(bytes(host) == bytes([7]) * SIZE, flush=True)
"""
# Takes pieces of 64 MiB by cudaMallocAsync's function until it is refused, at 4 GiB at the latest.
ASYNC = (
    DRIVER
    + """
pool, kept, blocks = ctypes.c_void_p(), ctypes.c_uint64(), []
while len(blocks) < 64:
    address = ctypes.c_uint64()
    if cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(64 << 20), None) != 0:
        break
    blocks.append(address)
for address in blocks:
    must(cuda.cuMemFreeAsync(address, None), "cuMemFreeAsync")
must(cuda.cuStreamSynchronize(None), "cuStreamSynchronize")
must(cuda.cuDeviceGetMemPool(ctypes.byref(pool), 0), "cuDeviceGetMemPool")
must(cuda.cuMemPoolGetAttribute(pool, 5, ctypes.byref(kept)), "cuMemPoolGetAttribute")
print(len(blocks) * 64, kept.value >> 20)
"""
)
# Each prints a digest of its result.
RESULTS = {
    "cupy": "import cupy, hashlib; a = cupy.arange(1 << 22, dtype='f4').reshape(2048, 2048) % 97;"
    "print(hashlib.sha256((a @ a + cupy.sort(a, axis=1)).tobytes()).hexdigest())",
    "jax": "import jax, hashlib; a = (jax.numpy.arange(1 << 22, dtype='f4') % 97).reshape(2048, 2048);"
    "print(hashlib.sha256(jax.device_get(a @ a + jax.numpy.sort(a, axis=1)).tobytes()).hexdigest())",
    "torch": "import torch, hashlib; a = (torch.arange(1 << 22, device='cuda') % 97).float().view(2048, 2048);"
    "print(hashlib.sha256((a @ a + a.sort(1).values).cpu().numpy().tobytes()).hexdigest())",
}
TORCH_CAPPED = """
import torch
blocks = []
try:
    while len(blocks) < 64:
        blocks.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    pass
print(len(blocks) * 64)
"""


def command(*words):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=LIMIT, check=False)
    if "cannot put a whole process to sleep" in done.stderr:
        raise NotHere(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def output_of(program, *options, **environment):
    words = [COMMAND, "run", *options, "--"] if options else []
    done = subprocess.run(
        [*words, sys.executable, "-c", program],
        capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def free_bytes():
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", "0"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return int(found.stdout) * MIB


@contextlib.contextmanager
def running(program, **environment):
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | environment,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def sleep_and_wake(program, **environment):
    with running(program, **environment) as child:
        before = free_bytes()
        done = json.loads(command("sleep", child.pid, "--whole", "--json"))
        time.sleep(0.5)  # the driver's own figures lag
        given = free_bytes() - before
        print(f"sleep {done['seconds']:.2f} s, {given / GIB:.2f} GiB given back, {done['changed_pools']} pools first")
        assert given >= GIB, given
        woken = json.loads(command("wake", child.pid, "--whole", "--timeout", 30, "--json"))
        print(f"wake {woken['seconds']:.2f} s")
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "True\n", "the contents have changed"
        return done


def case_sleep_of_a_plain_program():
    assert sleep_and_wake(PLAIN)["changed_pools"] == 0


def case_sleep_of_a_program_with_gpupool():
    assert sleep_and_wake(POOLED, GPUPOOL_CONTROL="1")["changed_pools"] == 1


def case_cost_of_a_look():
    """What --whole costs a command beside the sleep itself: the driver may have to be initialised."""
    with running(PLAIN) as child:
        start = time.perf_counter()
        assert not json.loads(command("wake", child.pid, "--whole", "--json"))["changed"]
        print(f"a wake of a process that is awake: {time.perf_counter() - start:.2f} s")


def case_malloc_async_is_capped_and_keeps():
    plain = output_of(ASYNC)
    capped, kept = map(int, output_of(ASYNC, "--keep", "--cap", "512MiB").split())
    print(f"MiB taken and kept: {plain} plain; {capped} {kept} with --keep --cap 512MiB")
    assert 0 < capped <= 512
    assert kept >= capped
    assert int(output_of(ASYNC, "--cap", "512MiB").split()[1]) < kept


def case_pytorch_by_malloc_async_is_capped():
    if importlib.util.find_spec("torch") is None:
        raise NotHere("torch")
    setting = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    taken = int(output_of(TORCH_CAPPED, "--keep", "--cap", "1GiB", **setting))
    print(f"{taken} MiB of 1 GiB")
    assert 512 <= taken <= 1024


def same_result(name, **environment):
    if importlib.util.find_spec(name) is None:
        raise NotHere(name)
    plain = output_of(RESULTS[name], **environment)
    assert output_of(RESULTS[name], "--keep", "--cap", "4GiB", **environment) == plain
    print(f"the same bits: {plain[:16]}")


def case_cupy_has_the_same_result():
    same_result("cupy")


def case_jax_has_the_same_result():
    same_result("jax")


def case_pytorch_has_the_same_result():
    same_result("torch")
    same_result("torch", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")


def main():
    failed = 0
    cases = {name[5:]: case for name, case in globals().items() if name.startswith("case_")}
    for name in sys.argv[1:] or cases:
        start = time.perf_counter()
        try:
            cases[name]()
            what = "ok"
        except NotHere as missing:
            what = f"not run: {missing}"
        except Exception:
            traceback.print_exc()
            what = "FAILED"
            failed += 1
        print(f"{name}: {what} ({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"{failed} of {len(sys.argv[1:] or cases)} cases failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
