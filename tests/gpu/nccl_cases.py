# SPDX-License-Identifier: Apache-2.0
"""Two processes with one GPU each, which communicate through NCCL with gpupool's memory. test_multi_gpu.py runs this as
a program.

python nccl_cases.py             prints a JSON object a case and process, as multi_gpu_cases.py does
"""

import os
import socket

import gpupool.torch
import torch
import torch.distributed as dist
from programs import report_cases
from torch import multiprocessing

MIB = 1 << 20
MODE = ""


def rank():
    return dist.get_rank()


def device():
    return torch.device("cuda", rank())


def expect_sum(tensor):
    """All processes add up what they have: 1 and 2."""
    tensor.fill_(rank() + 1)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    assert bool((tensor == 3).all())


def case_all_reduce():
    for size in (1, 1000, 5 * MIB, 100 * MIB):
        expect_sum(torch.empty(size, device=device()))


def case_all_gather_and_reduce_scatter():
    part = torch.full((3 * MIB,), float(rank()), device=device())
    whole = torch.empty(6 * MIB, device=device())
    dist.all_gather_into_tensor(whole, part)
    assert float(whole[0]) == 0 and float(whole[-1]) == 1
    dist.reduce_scatter_tensor(part, whole)
    assert float(part[0]) == 2 * rank()


def case_distributed_data_parallel():
    torch.manual_seed(0)
    model = torch.nn.Linear(512, 512).to(device())
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank()])
    for step in range(10):
        torch.manual_seed(10 * step + rank())
        parallel(torch.randn(64 + 16 * (step % 3), 512, device=device())).square().mean().backward()
        grads = [torch.empty_like(model.weight.grad) for _ in range(2)]
        dist.all_gather(grads, model.weight.grad)
        assert torch.equal(*grads)
        model.zero_grad()


def case_graph_of_a_collective():
    tensor = torch.ones(MIB, device=device())
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(tensor)
    tensor.fill_(1)
    graph.replay()
    torch.cuda.empty_cache()
    graph.replay()
    torch.cuda.synchronize()
    assert bool((tensor == 4).all())


def case_registered_memory_of_nccls_own():
    """A MemPool of NCCL's allocator, registered with the communicator."""
    expect_registered(lambda backend: torch.cuda.MemPool(backend.mem_allocator))


def case_registered_memory_of_the_pool():
    expect_registered(lambda backend: torch.cuda.MemPool())


def expect_registered(make_pool):
    """Under the shim: the pluggable way has no MemPools."""
    if MODE != "shim":
        return
    backend = dist.distributed_c10d._get_default_group()._get_backend(device())
    pool = make_pool(backend)
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.empty(8 * MIB, device=device())
    backend.register_mem_pool(pool)
    with torch.cuda.use_mem_pool(pool):
        later = torch.empty(40 * MIB, device=device())  # a segment that comes after the registration
    expect_sum(tensor)
    expect_sum(later)
    backend.deregister_mem_pool(pool)
    expect_sum(tensor)
    del tensor, later


def work(number, port):
    global MODE  # noqa: PLW0603
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    MODE = gpupool.torch.install("90%")
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=2, device_id=torch.device("cuda", number))
    report_cases({f"{name}_{number}" if name.startswith("case_") else name: case for name, case in globals().items()})
    dist.destroy_process_group()


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(work, args=(port,), nprocs=2, start_method="spawn")


if __name__ == "__main__":
    main()
