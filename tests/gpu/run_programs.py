# SPDX-License-Identifier: Apache-2.0
"""What run_cases.py starts: programs in Python that have never heard of gpupool, but for two."""

from dataclasses import dataclass, field

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
# A pool follows its group ten times a second, so what it keeps is read later.
ASYNC_LATER = ASYNC.replace(
    "must(cuda.cuStreamSynchronize", "import time; time.sleep(1)\nmust(cuda.cuStreamSynchronize"
)
# A member of a group that has 1.5 GiB until it is told to end.
MEMBER = """
import sys, gpupool
with gpupool.Pool("cuda") as pool:
    block = pool.malloc(3 << 29)
    print("ready", flush=True)
    sys.stdin.readline()
    pool.free(block)
"""
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
# A module with a global array of 256 MiB comes after the first allocation, by no hooked function.
MODULE = (
    DRIVER
    + """
ptx = b".version 7.8\\n.target sm_75\\n.address_size 64\\n.visible .global .align 4 .b8 array[268435456];\\n"
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 << 20)), "cuMemAlloc")
module = ctypes.c_void_p()
must(cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(ptx)), "cuModuleLoadData")
"""
)
# 16 threads take pieces of 2 to 64 MiB as far as they get, and give them back, for 10 s; then it says how often they
# got one, and how often none.
CHURN = (
    DRIVER
    + """
import random, threading, time
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 << 20)), "cuMemAlloc")
print("ready", flush=True)
sys.stdin.readline()
until = time.monotonic() + 10
counts = []
def churn(seed):
    must(cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
    sizes, mine, got, refused = random.Random(seed), [], 0, 0
    while time.monotonic() < until:
        block = ctypes.c_uint64()
        result = cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(sizes.choice((2, 4, 8, 16, 32, 64)) << 20))
        assert result in (0, 2), result
        if result == 0:
            mine.append(block)
            got += 1
        else:
            refused += 1
        if result != 0 or len(mine) > 8:
            for each in mine[::2]:
                must(cuda.cuMemFree_v2(each), "cuMemFree")
            mine = mine[1::2]
    counts.append((got, refused))
threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(16)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert len(counts) == 16, "a thread has failed"
print(*map(sum, zip(*counts)), flush=True)
sys.stdin.readline()
"""
)


@dataclass(frozen=True)
class Framework:
    """How the table in docs/run.md calls it, and what its programs need."""

    title: str
    module: str
    """What is imported, and says its version."""
    result: str
    """Computes `digest`, as bytes."""
    piece: str
    """An expression that takes 64 MiB of the GPU."""
    held: str
    """An expression for the bytes that it has, by its own account."""
    capped: tuple[str, ...]
    """The means whose cap it heeds; the others leave it as it is."""
    settings: dict[str, str] = field(default_factory=dict)

    def takes(self) -> str:
        """Prints a digest of a result, how many MiB it then got, of 4 GiB at most, and its version."""
        return f"""
import hashlib, {self.module}
{self.result}
taken = []
try:
    while len(taken) < 64:
        taken.append({self.piece})
except Exception as error:
    print(repr(error)[:200])
print(hashlib.sha256(digest).hexdigest(), len(taken) * 64, {self.module}.__version__)
"""

    def holds(self) -> str:
        """Prints how many bytes it has in the end, and its version."""
        return f"""
import {self.module}
{self.result}
kept = [{self.piece} for turn in range(4)]
print({self.held}, {self.module}.__version__)
"""


TORCH = {
    "module": "torch",
    "result": """
a = (torch.arange(1 << 22, device="cuda") % 97).float().view(2048, 2048)
digest = (a @ a + a.sort(1).values).cpu().numpy().tobytes()
""",
    "piece": "torch.empty(64 << 20, dtype=torch.uint8, device='cuda')",
    "held": "torch.cuda.memory_reserved()",
}
EVERY_CAP = ("--cap", "--keep", "--hooks")
FRAMEWORKS = {
    "cupy": Framework(
        "CuPy", "cupy",
        "a = cupy.arange(1 << 22, dtype='f4').reshape(2048, 2048) % 97\n"
        "digest = (a @ a + cupy.sort(a, axis=1)).tobytes()",
        "cupy.empty(64 << 20, dtype='u1')", "cupy.get_default_memory_pool().total_bytes()", EVERY_CAP,
    ),
    "jax": Framework(
        "JAX", "jax",
        "a = (jax.numpy.arange(1 << 22, dtype='f4') % 97).reshape(2048, 2048)\n"
        "digest = jax.device_get(a @ a + jax.numpy.sort(a, axis=1)).tobytes()",
        "jax.block_until_ready(jax.numpy.zeros(16 << 20, 'f4'))", "jax.devices()[0].memory_stats()['bytes_in_use']",
        EVERY_CAP, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    ),
    "numba": Framework(
        "Numba", "numba",
        """
import numpy
# numba-cuda 0.30 asks for a name that NumPy 2.5 has no more.
numpy.row_stack = getattr(numpy, "row_stack", numpy.vstack)
from numba import cuda
@cuda.jit
def add(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = a[i] * 3 + i % 7
a = cuda.to_device(numpy.arange(1 << 22, dtype="f4"))
add[a.size // 256, 256](a)
digest = a.copy_to_host().tobytes()
""",
        "cuda.device_array(64 << 20, dtype='u1')", "(256 << 20) + (16 << 20)", ("--hooks",),
    ),
    "tensorflow": Framework(
        "TensorFlow", "tensorflow",
        """
if not tensorflow.config.list_physical_devices("GPU"):
    raise SystemExit(77)
a = tensorflow.reshape(tensorflow.cast(tensorflow.range(1 << 22) % 97, "float32"), (2048, 2048))
digest = (a @ a + tensorflow.sort(a, axis=1)).numpy().tobytes()
""",
        "tensorflow.zeros(16 << 20).gpu()", "tensorflow.config.experimental.get_memory_info('GPU:0')['current']",
        ("--hooks",), {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    ),
    "torch": Framework("PyTorch, its own allocator", **TORCH, capped=("--hooks",)),
    "torch_async": Framework(
        "PyTorch, `backend:cudaMallocAsync`", **TORCH, capped=EVERY_CAP,
        settings={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    ),
    "torch_expandable": Framework(
        "PyTorch, `expandable_segments:True`", **TORCH, capped=("--hooks",),
        settings={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
}  # fmt: skip
