# SPDX-License-Identifier: Apache-2.0
"""Memory of captured graphs: a vision transformer with batches of three sizes and then a decoder with eight lengths,
both compiled with torch.compile(mode="reduce-overhead"), and eager work between them, under PyTorch's allocators and
under gpupool.

    python compiled.py [--repeats N]
"""

import argparse
import collections
import time

import side_by_side

MIB = 1 << 20
BATCHES = (16, 48, 96)
LENGTHS = (128, 256, 384, 512, 640, 768, 896, 1024)
ROUNDS = 8  # of each size: the first runs by itself, the second is captured
WIDTH, HEADS, LAYERS, VOCABULARY = 768, 12, 6, 16384


def build(torch, is_causal):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            parts = self.mix(self.before(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=is_causal)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))

    class Vision(nn.Module):
        def __init__(self):
            super().__init__()
            self.cut = nn.Conv2d(3, WIDTH, 16, 16)
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.head = nn.Linear(WIDTH, 1000)

        def forward(self, images):
            return self.head(self.layers(self.cut(images).flatten(2).transpose(1, 2)).mean(1))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(VOCABULARY, WIDTH)
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens):
            return self.head(self.layers(self.words(tokens)))

    return (Decoder if is_causal else Vision)().cuda().to(torch.bfloat16)


def work_between(torch, size):
    """Eager work, whose memory is free again afterwards."""
    x = torch.ones(size, 4096, device="cuda", dtype=torch.bfloat16)
    weights = torch.full((4096, 4 * 4096), 1e-4, device="cuda", dtype=torch.bfloat16)
    return torch.nn.functional.gelu(x @ weights).float().sum().item()


def train(torch, program, optimizer, inputs, targets):
    """One step, and its loss."""
    torch.compiler.cudagraph_mark_step_begin()
    loss = torch.nn.functional.cross_entropy(program(inputs).flatten(0, -2).float(), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def measure(rounds):
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    times, losses = [], []

    def phase(is_causal, sizes, batch):
        model = build(torch, is_causal)
        program = torch.compile(model, mode="reduce-overhead")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for turn in range(rounds):
            start = time.perf_counter()
            for size in sizes:
                losses.append(train(torch, program, optimizer, *batch(size)))
                work_between(torch, 16 * size if is_causal else 128 * size)
            torch.cuda.synchronize()
            if turn >= rounds // 2:
                times.append((time.perf_counter() - start) * 1000 / len(sizes))
        return model, program

    def images(count):
        return torch.randn(count, 3, 224, 224, device="cuda").bfloat16(), torch.randint(1000, (count,), device="cuda")

    def tokens(length):
        words = torch.randint(VOCABULARY, (8, length + 1), device="cuda")
        return words[:, :-1].contiguous(), words[:, 1:].contiguous()

    kept = [phase(False, BATCHES, images)]
    vision_ms, half = min(times), len(times)
    kept.append(phase(True, LENGTHS, tokens))
    stats = torch.cuda.memory_stats()
    by_pool = collections.Counter()
    for segment in torch.cuda.memory_snapshot():
        by_pool[str(segment["segment_pool_id"])] += segment["total_size"] / MIB
    side_by_side.report(
        {
            "reserved": torch.cuda.max_memory_reserved() / MIB,
            "allocated": torch.cuda.max_memory_allocated() / MIB,
            "now": torch.cuda.memory_reserved() / MIB,
            "live": torch.cuda.memory_allocated() / MIB,
            "active": stats["active_bytes.all.peak"] / MIB,
            "vision_ms": vision_ms,
            "decoder_ms": min(times[half:]),
            "losses": losses,
            "by_pool": by_pool,
            "models": len(kept),
        }
    )


def main(repeats, rounds):
    runs = side_by_side.run_in_turn(repeats, "--rounds", str(rounds), tell=lambda *each: print(*each, flush=True))
    keys = {"reserved": 0, "allocated": 0, "now": 0, "live": 0, "active": 0, "vision_ms": 2, "decoder_ms": 2}
    rows = [
        (key, [side_by_side.spread([each[key] for each in results], digits) for results in runs.values()])
        for key, digits in keys.items()
    ]
    side_by_side.print_table(f"MiB, and ms a step; {repeats} runs", rows, list(runs))
    ours = max(each["reserved"] for each in runs["gpupool"])
    theirs = min(each["reserved"] for each in runs["native"] + runs["expandable"])
    assert ours <= 1.02 * theirs, "no more than PyTorch's better allocator"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    measure(given.rounds) if given.child else main(given.repeats, given.rounds)
