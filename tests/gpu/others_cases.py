# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415  each case imports its frameworks itself
"""What must hold in frameworks other than PyTorch, and between all of them, on a GPU. A process installs once, so
test_others.py runs each case as a program.

    python others_cases.py case_cupy
"""

import gc
import os
import sys

import gpupool

MIB = 1 << 20
GIB = 1 << 30


def pool():
    return gpupool.default_pool(0)


def is_pools(address, size=1):
    """Whether a live block of the pool with as many bytes begins there."""
    block = pool().block_info(address)
    return block.address == address and block.requested_bytes >= size


def raised(kind, function):
    try:
        function()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


def forgets_streams_that_ended():
    """Everything was freed, and asking about streams does not touch one that is no more: the driver may crash then."""
    gc.collect()
    pool().synchronize()
    pool().empty_cache()
    assert pool().memory_allocated() == 0 and pool().memory_reserved() == 0


# ---- CuPy


def case_cupy():
    import cupy

    before = cupy.ones(1000)
    gpupool.install("cupy", cap="40%")
    array = cupy.arange(10 * MIB, dtype=cupy.int32)
    assert is_pools(array.data.ptr, 40 * MIB)
    assert int(array[-1]) == 10 * MIB - 1 and float(before.sum()) == 1000
    theirs = cupy.get_default_memory_pool()
    assert theirs.used_bytes() == pool().memory_allocated() >= 40 * MIB
    assert theirs.get_limit() == int(pool().device_info().total_bytes * 0.4)
    del array
    theirs.free_all_blocks()
    assert theirs.total_bytes() == 0
    assert cupy.empty(0).nbytes == 0
    assert float(cupy.linalg.norm(cupy.ones((300, 300)))) == 300
    assert abs(float(cupy.fft.ifft(cupy.fft.fft(cupy.ones(4096))).real.sum()) - 4096) < 1e-3


def case_cupy_out_of_memory():
    import cupy

    gpupool.install("cupy", cap="1GiB")
    kept = cupy.empty(900 * MIB, cupy.uint8)
    text = raised(cupy.cuda.memory.OutOfMemoryError, lambda: cupy.empty(200 * MIB, cupy.uint8))
    assert "209,715,200 bytes. gpupool: " in text and "limit" in text, text
    del kept
    assert cupy.empty(200 * MIB, cupy.uint8).nbytes == 200 * MIB
    assert "per-thread default stream" in raised(RuntimeError, lambda: on_stream(cupy, cupy.cuda.Stream.ptds))


def on_stream(cupy, stream):
    with stream:
        return cupy.empty(1000)


def case_cupy_streams():
    """Many streams come and go while their memory is in use, and what each wrote stays right."""
    import cupy

    gpupool.install("cupy", cap="2GiB")
    size = 8 * MIB
    for turn in range(40):
        kept = []
        for k in range(8):
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                array = cupy.full(size, turn * 8 + k, cupy.int32)
                for _ in range(5):
                    array = array + 1
                event = stream.record()
            kept.append((array, event))
            del stream, array
        for k, (array, event) in enumerate(kept):
            event.synchronize()
            assert int(array.min()) == int(array.max()) == turn * 8 + k + 5
        del kept, array
    stats = pool().stats()
    assert stats.all.reserved_bytes.peak <= 2 * GIB
    assert stats.streams <= 2, stats.streams
    pool().validate()


def case_cupy_fork():
    import cupy

    gpupool.install("cupy")
    kept = cupy.ones(1000)
    child = os.fork()
    if child == 0:
        raised(Exception, lambda: cupy.empty(1000))
        del kept
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert float(kept.sum()) == 1000


# ---- Numba


def case_numba():
    from numba import cuda

    gpupool.install("numba", cap="4GiB")
    import numpy

    # numba-cuda 0.30 asks for a name that NumPy 2.5 has no more.
    numpy.row_stack = getattr(numpy, "row_stack", numpy.vstack)

    @cuda.jit
    def add(a, x):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += x

    array = cuda.to_device(numpy.arange(MIB, dtype=numpy.float32))
    assert is_pools(array.__cuda_array_interface__["data"][0], 4 * MIB)
    add[MIB // 256, 256](array, 3)
    assert (array.copy_to_host() == numpy.arange(MIB, dtype=numpy.float32) + 3).all()
    free, total = cuda.current_context().get_memory_info()
    assert total == 4 * GIB and abs(total - free - 4 * MIB) < MIB
    text = raised(Exception, lambda: cuda.device_array(5 * GIB, numpy.uint8))
    assert "OUT_OF_MEMORY" in text or "limit" in text, text
    raised(NotImplementedError, array.get_ipc_handle)

    # Two streams: what one frees while it works, the other must not get too early.
    streams = [cuda.stream(), cuda.stream()]
    for turn in range(50):
        results = []
        for k, stream in enumerate(streams):
            work = cuda.device_array(4 * MIB, numpy.float32, stream=stream)
            work.copy_to_device(numpy.full(4 * MIB, turn + k, numpy.float32), stream=stream)
            for _ in range(4):
                add[4 * MIB // 256, 256, stream](work, 1)
            results.append(work.copy_to_host(stream=stream))
            del work
        for k, stream in enumerate(streams):
            stream.synchronize()
            assert (results[k] == turn + k + 4).all()
    assert pool().stats().all.reserved_bytes.peak < 300 * MIB
    cuda.current_context().reset()
    del array
    pool().synchronize()
    pool().validate()


def case_numba_by_its_variable():
    assert os.environ["NUMBA_CUDA_MEMORY_MANAGER"] == "gpupool.numba"
    from numba import cuda

    array = cuda.device_array(MIB, "u1")
    assert is_pools(array.__cuda_array_interface__["data"][0], MIB)


def case_numba_too_late():
    from numba import cuda

    cuda.device_array(100, "u1")
    text = raised(RuntimeError, lambda: gpupool.install("numba"))
    assert "comes too late: Numba has set up CUDA" in text


# ---- cuda.core, Triton, RMM, Warp


def case_cuda_core():
    gpupool.install("cuda.core", cap="1GiB")
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(10 * MIB, stream=stream)
    assert is_pools(int(buffer.handle), 10 * MIB) and buffer.size == 10 * MIB
    assert pool().block_info(int(buffer.handle)).stream == int(stream.handle)
    assert buffer.is_device_accessible and not buffer.is_host_accessible and buffer.device_id == 0
    buffer.close(stream)
    assert pool().memory_allocated() == 0
    again = device.allocate(10 * MIB, stream=stream)
    by_drop = device.allocate(MIB, stream=device.default_stream)
    del by_drop
    gc.collect()
    assert pool().memory_allocated() == 10 * MIB
    raised(MemoryError, lambda: device.allocate(2 * GIB, stream=stream))
    again.close(stream)
    stream.close()
    forgets_streams_that_ended()


def case_triton():
    import torch
    import triton
    import triton.language as tl

    gpupool.install("torch", "triton")

    @triton.jit
    def copy(source, target, rows, columns, R: tl.constexpr, C: tl.constexpr):
        theirs = tl.make_tensor_descriptor(source, shape=[rows, columns], strides=[columns, 1], block_shape=[R, C])
        ours = tl.make_tensor_descriptor(target, shape=[rows, columns], strides=[columns, 1], block_shape=[R, C])
        at = tl.program_id(0) * R
        ours.store([at, 0], theirs.load([at, 0]))

    source = torch.rand(1024, 64, device="cuda")
    target = torch.zeros_like(source)
    before = pool().stats().all.allocated_blocks.total_allocated
    copy[(1024 // 32,)](source, target, 1024, 64, R=32, C=64)
    assert torch.equal(source, target)
    assert pool().stats().all.allocated_blocks.total_allocated > before
    memory = gpupool.triton.allocator(1000, 128, None)
    assert is_pools(memory.data_ptr(), 1000)


def case_rmm():
    import rmm
    from rmm.pylibrmm.stream import Stream

    gpupool.install("rmm", cap="1GiB")
    buffer = rmm.DeviceBuffer(size=10 * MIB)
    assert is_pools(buffer.ptr, 10 * MIB)
    assert buffer.tobytes()[:0] == b""
    raised(MemoryError, lambda: rmm.DeviceBuffer(size=2 * GIB))
    del buffer
    stream = Stream()
    buffer = rmm.DeviceBuffer(size=MIB, stream=stream)
    assert pool().block_info(buffer.ptr).stream == stream.__cuda_stream__()[1] != 0
    del buffer, stream
    forgets_streams_that_ended()


def case_warp():
    import warp

    gpupool.install("warp", cap="1GiB")
    array = warp.full(MIB, 3.0, dtype=float, device="cuda:0")
    assert is_pools(array.ptr, 4 * MIB)
    assert (array.numpy() == 3).all()
    raised(MemoryError, lambda: warp.empty(GIB, dtype=float, device="cuda:0"))
    with warp.ScopedStream(warp.Stream("cuda:0")):
        other = warp.zeros(MIB, dtype=float, device="cuda:0")
        assert pool().block_info(other.ptr).stream != 0
        del other
    del array
    forgets_streams_that_ended()


# ---- JAX, DLPack, the CUDA array interface


def case_jax():
    gpupool.jax.share(0.5, cap="80%")
    import jax

    buffer = pool().alloc(MIB)
    buffer.fill(7)
    array = jax.dlpack.from_dlpack(buffer)
    assert array.unsafe_buffer_pointer() == buffer.address and int(array.astype("int32").sum()) == 7 * MIB
    borrowed = gpupool.from_dlpack(jax.numpy.arange(1000, dtype="float32"))
    assert borrowed.shape == (1000,) and borrowed.dtype == "<f4" and borrowed.device == (2, 0)
    total = pool().device_info().total_bytes
    limit = jax.devices()[0].memory_stats()["bytes_limit"]
    assert abs(limit - 0.4 * total) < 0.02 * total, (limit, total)
    assert pool().stats().limit_bytes == int(0.4 * total)
    assert "comes too late" in raised(RuntimeError, lambda: gpupool.jax.share(0.5))
    raised(ValueError, lambda: gpupool.install("jax"))


def case_interchange():
    """Out of the pool and into it, between all that speak DLPack or the CUDA array interface; nothing is copied."""
    import cupy
    import torch
    from numba import cuda

    gpupool.install("torch", "cupy", "numba")
    buffer = pool().alloc(4 * MIB)
    address = buffer.address
    tensor = torch.from_dlpack(buffer)
    array = cupy.from_dlpack(buffer)
    seen = cupy.asarray(buffer)
    assert tensor.data_ptr() == array.data.ptr == seen.data.ptr == address
    assert cuda.as_cuda_array(buffer).__cuda_array_interface__["data"][0] == address
    tensor.fill_(9)
    assert int(array.astype(cupy.int64).sum()) == 9 * 4 * MIB == int(seen.astype(cupy.int64).sum())
    del seen
    buffer.free()
    assert is_pools(address, 4 * MIB), "the tensor and the array keep it"
    del tensor, array

    theirs = cupy.arange(1000, dtype=cupy.float32)
    assert gpupool.from_dlpack(theirs).address == theirs.data.ptr
    assert gpupool.from_dlpack(torch.ones(5, device="cuda")).nbytes == 20
    numbas = cuda.device_array((3, 5), "f4")
    borrowed = gpupool.from_cuda_array(numbas)
    assert (borrowed.shape, borrowed.dtype, borrowed.nbytes) == ((3, 5), "<f4", 60)
    assert is_pools(borrowed.address, 60)
    assert torch.from_dlpack(theirs).data_ptr() == theirs.data.ptr


# ---- together


def case_cupy_and_torch_share():
    import cupy
    import torch

    gpupool.install("torch", "cupy", cap="60%")
    tensor = torch.ones(2 * GIB, device="cuda")
    held = pool().memory_reserved()
    assert 8 * GIB <= held <= 8.1 * GIB
    del tensor
    for _ in range(3):
        arrays = [cupy.ones(256 * MIB, cupy.float32) for _ in range(8)]
        assert float(arrays[3][-1]) == 1
        del arrays
        tensors = [torch.ones(512 * MIB, device="cuda") for _ in range(4)]
        assert tensors[3][-1].item() == 1
        del tensors
    assert pool().stats().all.reserved_bytes.peak <= held + 64 * MIB
    assert torch.cuda.memory_reserved() == cupy.get_default_memory_pool().total_bytes()
    torch.cuda.empty_cache()
    assert pool().memory_reserved() < 64 * MIB


def case_all_on_one_pool():
    import cupy
    import torch
    from numba import cuda

    gpupool.install("torch", "cupy", "numba", "cuda.core", "triton", cap="50%")
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    stream = torch.cuda.current_stream().cuda_stream
    steps = {
        "torch": lambda: torch.empty(GIB, dtype=torch.uint8, device="cuda"),
        "cupy": lambda: cupy.empty(GIB, cupy.uint8),
        "numba": lambda: cuda.device_array(GIB, "u1"),
        "cuda.core": lambda: device.allocate(GIB, stream=device.default_stream),
        "triton": lambda: gpupool.triton.allocator(GIB, 128, stream),
    }
    for _ in range(3):
        for name, make in steps.items():
            kept = make()
            assert pool().memory_allocated() == GIB, name
            del kept
            gc.collect()
            assert pool().memory_allocated() == 0, name
    # A stream that is alone leaves no events, so what the first one has freed does not serve the second yet.
    assert pool().stats().all.reserved_bytes.peak <= 2 * GIB + 16 * MIB, pool().report()
    pool().validate()


def case_exit_with_live_memory():
    import cupy
    import torch
    from numba import cuda

    gpupool.install("torch", "cupy", "numba", "cuda.core", "triton")
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    kept = [
        torch.ones(1000, device="cuda"),
        cupy.ones(1000),
        cuda.device_array(1000),
        device.allocate(1000, stream=device.default_stream),
        gpupool.triton.allocator(1000, 128, 0),
        on_stream(cupy, cupy.cuda.Stream()),
    ]
    kept.append(kept)


def case_from_the_environment():
    """Run with GPUPOOL_INSTALL=torch,cupy and GPUPOOL_CAP=40%, and by `python -m gpupool`."""
    import cupy
    import torch

    tensor, array = torch.ones(1000, device="cuda"), cupy.ones(1000)
    assert is_pools(tensor.data_ptr()) and is_pools(array.data.ptr)
    assert pool().stats().limit_bytes == int(pool().device_info().total_bytes * 0.4)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
