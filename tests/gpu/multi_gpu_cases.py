# SPDX-License-Identifier: Apache-2.0
"""What must hold in a PyTorch process that uses two GPUs. test_multi_gpu.py runs this as a program, once for each way
of installing gpupool.

    python multi_gpu_cases.py        prints a JSON object per case: its name, and what went wrong ("" if nothing)
"""

import gc

import torch
from gpupool import torch as gpupool_torch
from programs import report_cases
from torch.nn.parallel import comm

MIB = 1 << 20
MODE = ""
SIZES = (1, 1000, 300_000, 3 * MIB, 20 * MIB)


def numbered(size, device, dtype=torch.int32):
    return torch.arange(size, device=device, dtype=dtype)


def case_copies_of_all_sizes():
    for size in SIZES:
        for source, target in (("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")):
            tensor = numbered(size, source)
            copy = tensor.to(target)
            back = copy.to("cpu", non_blocking=False)
            assert bool((back == torch.arange(size, dtype=torch.int32)).all()), (size, source)
            part = numbered(2 * size, source)[::2].to(target, non_blocking=True)
            torch.cuda.synchronize(source)
            torch.cuda.synchronize(target)
            assert int(part[-1]) == 2 * (size - 1)


def case_gather_and_scatter_by_dimension():
    for dim in (0, 1):
        tensors = [torch.full((64, 96), float(device), device=f"cuda:{device}") for device in (0, 1)]
        for destination in (0, 1):
            gathered = comm.gather(tensors, dim, destination=destination)
            first, second = gathered.chunk(2, dim)
            assert float(first.sum()) == 0 and float(second.sum()) == 64 * 96
        whole = torch.arange(128 * 128, device="cuda:0", dtype=torch.float32).reshape(128, 128)
        parts = comm.scatter(whole, (0, 1), dim=dim)
        for device, (part, expected) in enumerate(zip(parts, whole.chunk(2, dim), strict=True)):
            assert part.get_device() == device
            assert torch.equal(part.cpu(), expected.cpu())
        parts = comm.scatter(whole, (0, 1), chunk_sizes=(100, 28), dim=dim)
        assert torch.equal(comm.gather(parts, dim, destination=0), whole)
    copies = comm.broadcast(whole, (0, 1))
    assert torch.equal(comm.reduce_add(copies, destination=1).cpu(), 2 * whole.cpu())


def model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))


def case_data_parallel():
    single, double = model(1).to("cuda:0"), model(1).to("cuda:0")
    parallel = torch.nn.DataParallel(double, device_ids=[0, 1])
    for step in range(5):
        given = torch.randn(64 + 8 * step, 256, device="cuda:0")
        losses = []
        for one in (single, parallel):
            loss = one(given).square().mean()
            loss.backward()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 1e-5
        for left, right in zip(single.parameters(), double.parameters(), strict=True):
            torch.testing.assert_close(left.grad, right.grad, rtol=1e-3, atol=1e-5)
            left.grad = right.grad = None


def case_pipeline():
    """Two stages on two devices, microbatches that overlap, activations that go back and forth."""
    stages = [model(2).to("cuda:0"), model(3).to("cuda:1")]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]
    given = torch.randn(128, 256, device="cuda:0")
    losses = []
    for _ in range(30):
        outputs = []
        for micro in given.chunk(4):
            hidden = stages[0](micro).to("cuda:1", non_blocking=True)
            outputs.append(stages[1](hidden).to("cuda:0", non_blocking=True))
        loss = (torch.cat(outputs) - given).square().mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses


def case_autograd_streams_across_devices():
    """Backward of tensors that went from a side stream of one device to a side stream of the other."""
    streams = [torch.cuda.Stream(device) for device in (0, 1)]
    weights = [torch.full((4 * MIB,), 2.0, device=f"cuda:{device}", requires_grad=True) for device in (0, 1)]
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    for _ in range(5):
        with torch.cuda.stream(streams[0]):
            first = weights[0] * 3
            moved = first.to("cuda:1", non_blocking=True)
        streams[1].wait_stream(streams[0])
        with torch.cuda.stream(streams[1]):
            second = (moved * weights[1]).to("cuda:0", non_blocking=True)
        torch.cuda.current_stream(0).wait_stream(streams[1])
        second.sum().backward()
        for device in (0, 1):
            torch.cuda.synchronize(device)
        assert float(weights[0].grad[0]) == 6 and float(weights[1].grad[0]) == 6
        assert bool((weights[0].grad == 6).all()) and bool((weights[1].grad == 6).all())
        for weight in weights:
            weight.grad = None


def case_mem_pools_and_peers():
    if MODE != "shim":
        return
    pools = [torch.cuda.MemPool(), torch.cuda.MemPool()]
    with torch.cuda.use_mem_pool(pools[0], device=0):
        early = numbered(5 * MIB, "cuda:0")
    assert int(early.to("cuda:1")[-1]) == 5 * MIB - 1
    with torch.cuda.use_mem_pool(pools[1], device=1):
        late = early.to("cuda:1")
        assert int(late.to("cuda:0")[-1]) == 5 * MIB - 1
    del early, late, pools


def case_graphs_and_peers():
    """A graph of one device whose memory the other reads and writes between launches."""
    given = torch.zeros(4 * MIB, device="cuda:0")
    side = torch.cuda.Stream(0)
    side.wait_stream(torch.cuda.current_stream(0))
    with torch.cuda.stream(side):
        given * 2 + 1
    torch.cuda.current_stream(0).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inner = given * 2
        result = inner + 1
        del inner
    for value in range(5):
        given.copy_(torch.full((4 * MIB,), float(value), device="cuda:1"))
        graph.replay()
        torch.cuda.empty_cache()
        copy = result.to("cuda:1")
        assert bool((copy == 2 * value + 1).all()), value
    del graph, result


def case_statistics_are_the_sums_of_the_snapshot():
    """PyTorch's own test of its statistics, with work on both devices."""
    kept = []
    for step in range(40):
        device = step % 2
        kept.append(torch.randn(1 + step * 7919 % 300_000, device=f"cuda:{device}").to(f"cuda:{1 - device}"))
        if step % 5 == 4:
            del kept[: len(kept) // 2]
        if step % 8 == 7:
            check_sums()
    del kept
    gc.collect()
    check_sums()


def check_sums():
    for device in (0, 1):
        torch.cuda.synchronize(device)
    expected = {}

    def add(device, name, kind, amount):
        for pool in ("all", kind):
            expected[device, f"{name}.{pool}.current"] = expected.get((device, f"{name}.{pool}.current"), 0) + amount

    for segment in torch.cuda.memory_snapshot():
        device, kind = segment["device"], segment["segment_type"] + "_pool"
        add(device, "reserved_bytes", kind, segment["total_size"])
        add(device, "allocated_bytes", kind, segment["allocated_size"])
        add(device, "active_bytes", kind, segment["active_size"])
        add(device, "requested_bytes", kind, segment["requested_size"])
        for block in segment["blocks"]:
            add(device, "allocation", kind, block["state"] == "active_allocated")
            add(device, "active", kind, block["state"].startswith("active_"))
    for (device, name), value in expected.items():
        assert torch.cuda.memory_stats(device)[name] == value, (device, name, value)


def case_limits_are_each_devices_own():
    torch.cuda.set_per_process_memory_fraction(0.1, 1)
    try:
        total = torch.cuda.mem_get_info(1)[1]
        try:
            torch.empty(int(total * 0.11), dtype=torch.uint8, device="cuda:1")
        except RuntimeError as error:
            assert "GPU 1 has a total capacity of " in str(error), error
        else:
            raise AssertionError("the limit did not hold")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 1)
    torch.empty(int(total * 0.11), dtype=torch.uint8, device="cuda:0")


def main():
    global MODE  # noqa: PLW0603
    MODE = gpupool_torch.install("90%")
    report_cases(globals())


if __name__ == "__main__":
    main()
