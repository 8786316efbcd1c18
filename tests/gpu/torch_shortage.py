# SPDX-License-Identifier: Apache-2.0
"""A program that runs out of memory, with nothing set up but gpupool.torch.install(). Prints a JSON object: what each
function holds, and what the error says."""

import json
import random

import torch
from gpupool import torch as gpupool_torch

MIB = 1 << 20
kept = []


def cache_keys(count):
    for _ in range(count):
        kept.append(torch.empty(4 * MIB, dtype=torch.uint8, device="cuda"))


def load_weights(count):
    for i in range(count):
        kept.append(torch.empty((24 + 8 * (i % 5)) * MIB, dtype=torch.uint8, device="cuda"))


def keep_activations(count):
    pick = random.Random(5)
    for _ in range(count):
        kept.append(torch.empty(pick.randrange(4 * MIB, 28 * MIB), dtype=torch.uint8, device="cuda"))


def small_things(count):
    for _ in range(count):
        kept.append(torch.empty(MIB, dtype=torch.uint8, device="cuda"))


def step(size):
    """What comes and goes is no holder, however large it is."""
    for _ in range(200):
        torch.empty(size, dtype=torch.uint8, device="cuda")


def main():
    gpupool_torch.install(12 << 30)
    held = {}
    for function, count in ((cache_keys, 700), (small_things, 300), (load_weights, 100), (keep_activations, 110)):
        before = torch.cuda.memory_allocated()
        function(count)
        held[function.__name__] = torch.cuda.memory_allocated() - before
        step(700 * MIB)
    try:
        torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        print(json.dumps({"held": held, "error": str(error)}))


if __name__ == "__main__":
    main()
