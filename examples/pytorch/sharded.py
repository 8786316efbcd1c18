# SPDX-License-Identifier: Apache-2.0
"""Trains a Llama-shaped model with FSDP2 or DDP, rows of different lengths in each step, under PyTorch's own
allocator, as it is and with expandable segments, and under gpupool: step time and memory side by side.

    python sharded.py [--way fsdp|ddp] [--ranks N] [--steps N] [--repeats N]

With as many GPUs as ranks, they train with NCCL. With fewer, one GPU does what one of the ranks would do: collectives
of PyTorch's group "fake" move nothing, so the weights are noise, but memory, streams and kernels are the same.
"""

import argparse
import os
import statistics
import time

import side_by_side

GIB = 1 << 30
LAYERS, WIDTH, HEADS, VOCABULARY, BATCH = 24, 2048, 16, 32000, 4


def build(torch):
    functional = torch.nn.functional

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(WIDTH) for _ in range(2))
            self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.mix = torch.nn.Linear(WIDTH, WIDTH, bias=False)
            self.gate, self.up = (torch.nn.Linear(WIDTH, 11 * WIDTH // 4, bias=False) for _ in range(2))
            self.down = torch.nn.Linear(11 * WIDTH // 4, WIDTH, bias=False)

        def forward(self, x):
            heads = self.attention(self.norms[0](x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.mix(mixed.transpose(1, 2).flatten(-2))
            y = self.norms[1](x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    with torch.device("cuda"):
        return torch.nn.Sequential(
            torch.nn.Embedding(VOCABULARY, WIDTH), *(Layer() for _ in range(LAYERS)), torch.nn.Linear(WIDTH, VOCABULARY)
        )


def distribute(torch, way, model):
    """The model as each rank has it."""
    if way == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model.bfloat16())
        if torch.distributed.get_backend() == "fake":
            model.register_comm_hook(torch, keep_gradients)
        return model
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: PLC0415

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in model:
        fully_shard(part, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def keep_gradients(torch, bucket):
    """What an exchange of gradients gives DDP, which the group "fake" has not."""
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def train(torch, way, steps, rank):
    """What a rank measured."""
    torch.manual_seed(1)
    model = distribute(torch, way, build(torch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(128, 2049, (steps,), generator=generator).tolist()
    times = []
    for length in lengths:
        tokens = torch.randint(VOCABULARY, (BATCH, length + 1), generator=generator).cuda()
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    result = {
        "rank": rank,
        "ms": statistics.median(seconds / length for seconds, length in zip(times[5:], lengths[5:], strict=True)) * 1e6,
        "total_s": sum(times),
        "reserved": torch.cuda.max_memory_reserved(),
        "allocated": torch.cuda.max_memory_allocated(),
        "driver_s": None,
    }
    if "GPUPOOL_EXAMPLE" in os.environ:
        import gpupool  # noqa: PLC0415

        driver = gpupool.default_pool(torch.cuda.current_device()).stats().driver
        calls = (driver.create, driver.release, driver.map, driver.set_access, driver.unmap, driver.address)
        result["driver_s"] = sum(each.nanoseconds for each in calls) / 1e9
    return result


def work(rank, way, steps, ranks, reports):
    """A process of its own for each rank."""
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    torch.cuda.set_device(rank)
    if torch.cuda.device_count() < ranks:
        from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    else:
        torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    reports.put(train(torch, way, steps, rank))
    torch.distributed.destroy_process_group()


def measure(way, steps, ranks):
    """The rank that reserved most, beside what it had live, tells for all."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29517")}
    import torch.multiprocessing as processes  # noqa: PLC0415

    here = ranks if count_gpus() >= ranks else 1
    reports = processes.get_context("spawn").SimpleQueue()
    processes.spawn(work, (way, steps, ranks, reports), nprocs=here)
    results = [reports.get() for _ in range(here)]
    side_by_side.report(max(results, key=lambda each: each["reserved"] / each["allocated"]))


def count_gpus():
    """Without CUDA's being initialised here."""
    import torch  # noqa: PLC0415

    return torch.cuda.device_count()


def main(way, ranks, steps, repeats):
    arguments = ("--way", way, "--ranks", str(ranks), "--steps", str(steps))
    found = side_by_side.run_in_turn(repeats, *arguments)

    def spread(name, unit):
        return [f"{side_by_side.spread(result[name] for result in results)} {unit}" for results in found.values()]

    most = {setting: max(results, key=lambda each: each["reserved"]) for setting, results in found.items()}
    driver = [each["driver_s"] for each in found["gpupool"]]
    rows = [
        ("1,000 tokens a row, median", spread("ms", "ms")),
        (f"all {steps} steps", spread("total_s", "s")),
        ("peak allocated", [f"{each['allocated'] / GIB:.3f} GiB" for each in most.values()]),
        ("peak reserved, most", [f"{each['reserved'] / GIB:.3f} GiB" for each in most.values()]),
        ("reserved / allocated", [f"{each['reserved'] / each['allocated']:.4f}" for each in most.values()]),
        ("in the driver", ["", "", f"{side_by_side.spread(driver, 3)} s"]),
    ]
    where = f"{ranks} GPUs" if count_gpus() >= ranks else f"one rank of {ranks}, on one GPU"
    side_by_side.print_table(f"{way} on {where}, {repeats} runs each", rows, list(found))
    reserved = {setting: each["reserved"] for setting, each in most.items()}
    assert reserved["gpupool"] <= min(reserved["native"], reserved["expandable"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=("fsdp", "ddp"), default="fsdp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        measure(given.way, given.steps, given.ranks)
    else:
        main(given.way, given.ranks, given.steps, given.repeats)
