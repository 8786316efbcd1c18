# SPDX-License-Identifier: Apache-2.0
"""On a GPU: PyTorch, CuPy and JAX take buffers without a copy, in the order of streams."""

import threading
from collections.abc import Iterator
from typing import Literal

import pytest
from conftest import MIB

import gpupool

pytestmark = [
    pytest.mark.skipif(not gpupool.features() & gpupool.Feature.CUDA, reason="there is no GPU"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture
def cuda() -> Iterator[gpupool.Pool]:
    with gpupool.Pool(backend="cuda") as pool:
        yield pool


def test_content(cuda: gpupool.Pool) -> None:
    with cuda.alloc(5 * MIB, cuda.stream()) as buffer:
        buffer.fill(7)
        buffer.copy_from_host(b"hello", offset=1000)
        assert buffer.copy_to_host(offset=999, size=7) == b"\7hello\7"
        with pytest.raises(gpupool.UnsupportedError):
            buffer.view()


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_memory_that_the_host_reaches(kind: Literal["pinned", "managed"]) -> None:
    with gpupool.Pool(backend="cuda", kind=kind) as pool, pool.alloc(1000) as buffer:
        buffer.fill(7)
        assert bytes(buffer.view()) == b"\7" * 1000
        assert buffer.__dlpack_device__() == ({"pinned": 3, "managed": 13}[kind], 0)
        assert hasattr(buffer, "__cuda_array_interface__") == (kind == "managed")


def test_torch(cuda: gpupool.Pool) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    buffer = cuda.alloc(4 * MIB, stream)
    assert buffer.stream == stream.cuda_stream
    buffer.fill(1)
    tensor = torch.from_dlpack(buffer)
    assert (tensor.data_ptr(), tensor.device.type, tensor.numel()) == (buffer.address, "cuda", 4 * MIB)
    assert int(tensor.sum()) == 4 * MIB
    assert torch.as_tensor(buffer, device="cuda").data_ptr() == buffer.address
    with torch.cuda.stream(stream):
        torch.from_dlpack(buffer).view(torch.float32).fill_(2.0)
    with gpupool.from_dlpack(tensor) as borrowed:
        assert (borrowed.address, borrowed.device) == (buffer.address, (2, 0))
    buffer.free()
    assert cuda.memory_allocated() == 4 * MIB
    stream.synchronize()
    assert tensor.view(torch.float32).sum().item() == 2.0 * MIB
    del tensor, borrowed
    assert cuda.memory_allocated() == 0
    cuda.release_stream(stream)


def test_a_tensor_that_ends_on_another_thread_after_its_pool() -> None:
    torch = pytest.importorskip("torch")
    pool = gpupool.Pool(backend="cuda")
    kept = [torch.from_dlpack(pool.alloc(1000))]
    pool.close()
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()


def test_cupy(cuda: gpupool.Pool) -> None:
    cupy = pytest.importorskip("cupy")
    buffer = cuda.alloc(4000)
    buffer.fill(1)
    array = cupy.from_dlpack(buffer)
    again = cupy.asarray(buffer)
    assert array.data.ptr == again.data.ptr == buffer.address
    assert int(array.sum()) == 4000
    with gpupool.from_dlpack(array) as borrowed:
        assert borrowed.address == buffer.address
    stream = cupy.cuda.Stream(non_blocking=True)
    with cuda.alloc(1000, stream) as other:
        assert other.stream == stream.ptr
        other.fill(3)
        assert int(cupy.from_dlpack(other).sum()) == 3000
    cuda.release_stream(stream)


def test_jax(cuda: gpupool.Pool) -> None:
    jax = pytest.importorskip("jax")
    buffer = cuda.alloc(4096)
    buffer.fill(1)
    array = jax.dlpack.from_dlpack(buffer)
    assert array.unsafe_buffer_pointer() == buffer.address
    assert int(array.astype("int32").sum()) == 4096
