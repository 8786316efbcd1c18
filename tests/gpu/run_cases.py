# SPDX-License-Identifier: Apache-2.0
"""Programs without gpupool under `gpupool run` and `gpupool record`, and whole processes that sleep, on a GPU.

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
import tempfile
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
must(cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
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
JAX = """
import sys, hashlib, jax
a = (jax.numpy.arange(1 << 28, dtype="f4") % 97).reshape(1 << 14, 1 << 14)
step = jax.jit(lambda a: a @ a)
def digest():
    return hashlib.sha256(jax.device_get(step(a)[:64]).tobytes()).hexdigest()
first = digest()
print("ready", flush=True)
for line in sys.stdin:
    print(digest() == first, flush=True)
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
# The same by cudaMalloc's function: MiB taken, and what the driver says there is.
SYNC = (
    DRIVER
    + """
free, total, blocks, result = ctypes.c_size_t(), ctypes.c_size_t(), 0, 0
while blocks < 64 and result == 0:
    result = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20))
    blocks += result == 0
must(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
print(blocks * 64, result, free.value >> 20, total.value >> 20)
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
# What stays of each of the driver's functions, in MiB: 96 by cuMemAlloc, 64 by cuMemAllocAsync, 32 of the host, and 20
# mapped.
RECORDED = (
    DRIVER
    + """
MIB = 1 << 20
class Properties(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("type", "handles", "location", "device")]
    _fields_ += [("rest", ctypes.c_ulong * 2)]
def size(count):
    return ctypes.c_size_t(count * MIB)
def take(function, *arguments):
    got = ctypes.c_uint64()
    must(getattr(cuda, function)(ctypes.byref(got), *arguments), function)
    return got
def keep():
    take("cuMemAlloc_v2", size(96))
    take("cuMemAllocAsync", size(64), None)
    take("cuMemHostAlloc", size(32), 0)
    chunk = take("cuMemCreate", size(20), ctypes.byref(Properties(1, 0, 1, 0)), ctypes.c_uint64(0))
    place = take("cuMemAddressReserve", size(20), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
    must(cuda.cuMemMap(place, size(20), ctypes.c_size_t(0), chunk, ctypes.c_uint64(0)), "cuMemMap")
for turn in range(100):
    must(cuda.cuMemFree_v2(take("cuMemAlloc_v2", size(300))), "cuMemFree")
    must(cuda.cuMemFreeAsync(take("cuMemAllocAsync", size(300), None), None), "cuMemFreeAsync")
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 50)) == 2
keep()
must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
"""
)
# The runtime, by ctypes: what it does must be seen too, and once.
RUNTIME = """
import ctypes, glob, os, sys
names = ["libcudart.so", "libcudart.so.13", "libcudart.so.12"]
names += [name for folder in sys.path for name in glob.glob(folder + "/nvidia/*/lib/libcudart.so.*")]
for name in names:
    try:
        runtime = ctypes.CDLL(name)
        break
    except OSError:
        pass
else:
    sys.exit(77)
address = ctypes.c_void_p()
for turn in range(10):
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(300 << 20)) == 0
    assert runtime.cudaFree(address) == 0
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(48 << 20)) == 0
assert runtime.cudaMallocHost(ctypes.byref(address), ctypes.c_size_t(16 << 20)) == 0
assert runtime.cudaMallocAsync(ctypes.byref(address), ctypes.c_size_t(8 << 20), None) == 0
"""
BESIDE_A_POOL = """
import ctypes, gpupool
pool = gpupool.Pool("cuda")
block = pool.malloc(1 << 30)
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxPushCurrent_v2(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(80 << 20)) == 0
"""
TORCH_RECORDED = """
import torch
torch.cuda.init()
kept = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
x = torch.randn(2048, 2048, device="cuda")
for turn in range(20):
    x = (x @ x).relu() / 2048
torch.cuda.synchronize()
print(torch.cuda.memory_reserved())
"""
PAIRS = (
    DRIVER
    + """
import time
best = 1e9
for turn in range(20):
    start = time.perf_counter()
    for pair in range(1000):
        cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(1 << 20), None)
        cuda.cuMemFreeAsync(address, None)
    best = min(best, (time.perf_counter() - start) / 1000)
print(best * 1e6)
"""
)
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
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", device],
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


def case_sleep_of_jax():
    if importlib.util.find_spec("jax") is None:
        raise NotHere("jax")
    assert sleep_and_wake(JAX, XLA_PYTHON_CLIENT_PREALLOCATE="false")["changed_pools"] == 0


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


def case_hooks_cap_any_allocation():
    plain = output_of(SYNC)
    capped = output_of(SYNC, "--hooks", "--cap", "512MiB")
    print(f"MiB taken, result, free, total: {plain} plain; {capped} with --hooks --cap 512MiB")
    assert capped == "512 2 0 512"
    if importlib.util.find_spec("torch") is not None:
        taken = int(output_of(TORCH_CAPPED, "--hooks", "--cap", "1GiB"))
        print(f"PyTorch: {taken} MiB of 1 GiB")
        assert 512 <= taken <= 1024


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
    for means in ("--keep", "--hooks"):
        assert output_of(RESULTS[name], means, "--cap", "4GiB", **environment) == plain, means
    print(f"the same bits: {plain[:16]}")


def case_cupy_has_the_same_result():
    same_result("cupy")


def case_jax_has_the_same_result():
    same_result("jax")


def case_pytorch_has_the_same_result():
    same_result("torch")
    same_result("torch", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")


def record(program, folder, **environment):
    """What is live at the end of the recordings of a program: bytes and stack of each call site, by file; and what the
    program printed. CUPTI may be missing, which is no failure."""
    path = os.path.join(folder, "run.gpt")
    done = subprocess.run(
        [COMMAND, "record", "-o", path, "--", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ | environment,
    )  # fmt: skip
    if "only pools of gpupool are recorded" in done.stderr:
        raise NotHere(done.stderr.strip())
    if done.returncode == 77:
        raise NotHere("the CUDA runtime")
    assert done.returncode == 0, done.stderr[-2000:]
    live = {}
    for name in sorted(os.listdir(folder)):
        lines = command("leaks", os.path.join(folder, name), "--json").splitlines()
        sites = [each for each in map(json.loads, lines) if each["of"] == "site"]
        live[name] = sorted((site["bytes"], site["stack"]) for site in sites)
    return live, done.stdout


def mib_of(sites):
    return sum(size for size, _ in sites) / MIB


def case_recording_of_the_drivers_functions():
    with tempfile.TemporaryDirectory() as folder:
        live, _ = record(RECORDED, folder)
        print(f"MiB live at the end: {mib_of(live['run.gpt'])}; the innermost frame: {live['run.gpt'][0][1][:60]!r}")
        assert mib_of(live["run.gpt"]) == 96 + 64 + 32 + 20
        trace = command("export", os.path.join(folder, "run.gpt"), "--pool", 1)
        assert trace.count("\na ") == 203 and trace.count("\nf ") == 200, (trace.count("\na "), trace.count("\nf "))
        # What ctypes called from is no function of the driver.
        assert all(stack and not stack.splitlines()[0].count("libcuda") for _, stack in live["run.gpt"]), live


def case_recording_of_the_runtime():
    with tempfile.TemporaryDirectory() as folder:
        live, _ = record(RUNTIME, folder)
        assert mib_of(live["run.gpt"]) == 48 + 16 + 8, live
        assert not any("libcudart" in stack.splitlines()[0] for _, stack in live["run.gpt"] if stack), live


def case_recording_beside_a_pool_counts_nothing_twice():
    for mode in ("vmm", "driver"):
        with tempfile.TemporaryDirectory() as folder:
            live, _ = record(BESIDE_A_POOL, folder, GPUPOOL_MODE=mode)
            assert mib_of(live["run.gpt"]) == 1024, (mode, live)
            assert mib_of(live["run.gpt.driver"]) == 80, (mode, live)


def case_recording_of_pytorch_is_what_it_reserves():
    """In each of its ways: PyTorch knows what it reserves, and its libraries add a little."""
    if importlib.util.find_spec("torch") is None:
        raise NotHere("torch")
    for settings in ("", "expandable_segments:True"):
        with tempfile.TemporaryDirectory() as folder:
            live, printed = record(TORCH_RECORDED, folder, PYTORCH_CUDA_ALLOC_CONF=settings)
            reserved, seen = int(printed) / MIB, mib_of(live["run.gpt"])
            print(f"{settings or 'as it comes'}: {reserved:.1f} MiB reserved, {seen:.1f} MiB recorded")
            assert reserved <= seen <= reserved + 256


def case_cost_of_recording():
    """A pair of cuMemAllocAsync and cuMemFreeAsync, alone and recorded."""
    plain = float(output_of(PAIRS))
    with tempfile.TemporaryDirectory() as folder:
        recorded = float(record(PAIRS, folder)[1])
    print(f"{plain:.2f} us a pair, {recorded:.2f} us recorded")


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
