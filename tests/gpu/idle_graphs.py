# SPDX-License-Identifier: Apache-2.0
"""Compiled programs whose graphs rest for minutes while the pool grows, and must still give the same results.

    python idle_graphs.py SECONDS

Needs a GPU, and gpupool in this Python's site-packages. Prints how many runs there were, and how many were wrong.
"""

import sys
import time

import gpupool.torch
import torch

print("install:", gpupool.torch.install(), torch.__version__, flush=True)
torch.manual_seed(0)


def build(width):
    layers = [torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)]
    return torch.nn.Sequential(*layers, torch.nn.LayerNorm(width)).cuda().half()


models = [build(1024), build(2048)]
inputs = [torch.randn(512, 1024, device="cuda").half(), torch.randn(256, 2048, device="cuda").half()]
compiled = [torch.compile(model, mode="reduce-overhead") for model in models]
with torch.no_grad():
    wanted = [model(x).clone() for model, x in zip(models, inputs, strict=True)]
    begun = time.time()
    bursts = runs = wrong = 0
    while time.time() - begun < float(sys.argv[1]):
        for _ in range(50):
            for program, x, expected in zip(compiled, inputs, wanted, strict=True):
                torch.compiler.cudagraph_mark_step_begin()
                found = program(x).clone()
                runs += 1
                wrong += not torch.allclose(found, expected, atol=3e-2, rtol=3e-2)
        bursts += 1
        # What makes the pool grow in a new window of surplus, as a user's other work does.
        other = [torch.empty((bursts * 7 + k) << 20, dtype=torch.uint8, device="cuda") for k in range(1, 40)]
        del other
        torch.cuda.synchronize()
        if bursts % 2 == 0:
            torch.cuda.reset_peak_memory_stats()
        time.sleep(61 if bursts % 3 == 1 else 15)

reserved = torch.cuda.memory_reserved() >> 20
print(f"{bursts} bursts, {runs} runs of compiled programs, {wrong} wrong; {reserved} MiB reserved", flush=True)
sys.exit(wrong != 0)
