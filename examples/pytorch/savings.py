# SPDX-License-Identifier: Apache-2.0
"""What three habits save, measured: gradient accumulation, mixed precision and activation checkpointing, under
PyTorch's allocators and under gpupool.

    python savings.py [--repeats N]
"""

import argparse
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


def main(repeats):
    runs = side_by_side.run_in_turn(repeats)
    names = list(runs["gpupool"][0])

    def measured(name, key):
        return {setting: [result[name][key] for result in results] for setting, results in runs.items()}

    reserved = {name: measured(name, "reserved") for name in names}
    rows = [(name, [f"{max(each) / MIB:,.0f} MiB" for each in reserved[name].values()]) for name in names]
    side_by_side.print_table(
        f"peak reserved by a step over {ROWS} rows of {LENGTH}, most of {repeats} runs", rows, list(runs)
    )
    rows = [(name, [side_by_side.spread(each, 1) for each in measured(name, "ms").values()]) for name in names]
    side_by_side.print_table(f"the step's time, best of 4, ms, in {repeats} runs", rows, list(runs))
    plain = min(reserved["plain"]["gpupool"])
    for name in names[1:]:
        ours = max(reserved[name]["gpupool"])
        print(f"{name}: {1 - ours / plain:.0%} saved")
        assert ours < 0.8 * plain, name
        assert ours <= min(reserved[name]["native"] + reserved[name]["expandable"]), name
    print("gpupool reserves least in each.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    measure() if given.child else main(given.repeats)
