# SPDX-License-Identifier: Apache-2.0
"""What three habits save, measured: gradient accumulation, mixed precision and activation checkpointing, under
PyTorch's allocators and under gpupool.

python savings.py
"""

import time

import side_by_side
import train_step

MIB = 1 << 20
ROWS, LENGTH = 16, 512


def step(torch, model, parts, mixed, checkpointed):
    """One training step over ROWS rows, in parts."""
    from torch.utils.checkpoint import checkpoint  # noqa: PLC0415

    tokens = torch.randint(train_step.VOCABULARY, (ROWS, LENGTH + 1), device="cuda")
    for part in tokens.chunk(parts):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=mixed):
            x = part[:, :-1]
            for layer in model:
                x = checkpoint(layer, x, use_reentrant=False) if checkpointed else layer(x)
            loss = torch.nn.functional.cross_entropy(x.flatten(0, 1).float(), part[:, 1:].flatten())
        (loss / parts).backward()


def measure():
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
    model = train_step.build(torch).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    results = {}
    for name, parts, mixed, checkpointed in (
        ("plain", 1, False, False),
        ("accumulation, 4 parts", 4, False, False),
        ("mixed precision, bf16", 1, True, False),
        ("activation checkpointing", 1, False, True),
        ("all three", 4, True, True),
    ):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(4):
            start = time.perf_counter()
            step(torch, model, parts, mixed, checkpointed)
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1000)
        results[name] = {"ms": min(times), "reserved": torch.cuda.max_memory_reserved()}
    side_by_side.report(results)


def main():
    found = side_by_side.run_all()
    names = list(found["gpupool"])
    rows = [(name, [f"{result[name]['reserved'] / MIB:,.0f} MiB" for result in found.values()]) for name in names]
    side_by_side.print_table(f"peak reserved by a step over {ROWS} rows of {LENGTH}", rows, list(found))
    rows = [(name, [f"{result[name]['ms']:.1f} ms" for result in found.values()]) for name in names]
    side_by_side.print_table("the step's time, best of 4", rows, list(found))
    plain = found["gpupool"]["plain"]["reserved"]
    for name in names[1:]:
        part = found["gpupool"][name]["reserved"] / plain
        print(f"{name}: {1 - part:.0%} saved")
        assert part < 0.8, name
        best = min(found[setting][name]["reserved"] for setting in ("native", "expandable"))
        assert found["gpupool"][name]["reserved"] <= best, name
    print("gpupool reserves least in each.")


if __name__ == "__main__":
    measure() if side_by_side.is_child() else main()
