# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer under PyTorch's own allocator, as it is and with expandable segments, and under gpupool:
step time, memory and loss side by side.

    python train_step.py [--steps N] [--repeats N]
"""

import argparse
import os
import statistics
import time

import side_by_side

GIB = 1 << 30
LAYERS, WIDTH, HEADS, VOCABULARY, BATCH = 12, 1024, 16, 16384, 12


def build(torch):
    functional = torch.nn.functional

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
            self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
            self.mix = torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            heads = self.attention(self.norms[0](x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.mix(mixed.transpose(1, 2).flatten(-2))
            return x + self.down(functional.gelu(self.up(self.norms[1](x))))

    return torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, WIDTH), *(Layer() for _ in range(LAYERS)), torch.nn.Linear(WIDTH, VOCABULARY)
    )


class Training:
    """The model, its optimizer, and batches no two of which need the same sizes."""

    def __init__(self, steps):
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        side_by_side.use_allocator()
        import torch  # noqa: PLC0415

        torch.manual_seed(1)
        torch.use_deterministic_algorithms(True)
        # Filling uninitialised memory would cost the same everywhere and show nothing.
        torch.utils.deterministic.fill_uninitialized_memory = False
        self.torch = torch
        self.model = build(torch).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.lengths = torch.randint(128, 1025, (steps,)).tolist()

    def step(self, length):
        """The seconds and the loss of one step, with rows of so many tokens."""
        torch = self.torch
        tokens = torch.randint(VOCABULARY, (BATCH, length + 1)).cuda()
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.perf_counter() - start, loss.item()


def measure(steps):
    training = Training(steps)
    times, losses = zip(*(training.step(length) for length in training.lengths), strict=True)
    a_token = [taken / length for taken, length in zip(times, training.lengths, strict=True)]
    cuda = training.torch.cuda
    stats = cuda.memory_stats()
    side_by_side.report(
        {
            "ms": statistics.median(a_token[5:]) * 512 * 1000,
            "total_s": sum(times),
            "reserved": cuda.max_memory_reserved(),
            "allocated": cuda.max_memory_allocated(),
            "driver_calls": stats["num_device_alloc"] + stats["num_device_free"],
            "losses": losses,
        }
    )


def main(steps, repeats):
    found = side_by_side.run_in_turn(repeats, "--steps", str(steps))

    def spread(name, unit):
        return [f"{side_by_side.spread(result[name] for result in results)} {unit}" for results in found.values()]

    first = {setting: results[0] for setting, results in found.items()}
    reserved = {setting: max(each["reserved"] for each in results) for setting, results in found.items()}
    rows = [
        ("step of 512 tokens a row, median", spread("ms", "ms")),
        (f"all {steps} steps", spread("total_s", "s")),
        ("peak allocated", [f"{each['allocated'] / GIB:.3f} GiB" for each in first.values()]),
        ("peak reserved, most", [f"{each / GIB:.3f} GiB" for each in reserved.values()]),
        ("reserved / allocated", [f"{reserved[name] / each['allocated']:.4f}" for name, each in first.items()]),
        ("memory calls of the driver", [str(each["driver_calls"]) for each in first.values()]),
        ("last loss", [f"{each['losses'][-1]:.6f}" for each in first.values()]),
    ]
    side_by_side.print_table(f"training, {repeats} runs each", rows, list(found))
    for setting, results in found.items():
        assert all(each["losses"] == first["native"]["losses"] for each in results), f"{setting}: other losses"
    best = {setting: min(each["ms"] for each in results) for setting, results in found.items()}
    assert reserved["gpupool"] <= min(each["reserved"] for each in found["expandable"])
    assert reserved["gpupool"] <= 1.03 * min(each["allocated"] for each in found["gpupool"])
    assert best["gpupool"] <= 1.03 * min(best["native"], best["expandable"])
    print("The losses are the same, bit for bit; gpupool reserves least and is as fast.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    measure(given.steps) if given.child else main(given.steps, given.repeats)
