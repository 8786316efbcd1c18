# SPDX-License-Identifier: Apache-2.0
"""Where the card's memory is in each phase of a training step, the CUDA context included, as NVML sees it: a table and
a picture, phases.svg.

    python phases.py [FOLDER]          the picture goes there
"""

import subprocess
import sys
from pathlib import Path

import gpupool.torch
import torch
import train_step

MIB = 1 << 20
PARTS = {
    "CUDA context": "#8c8c8c",
    "parameters": "#3b6ea8",
    "workspaces": "#b8a13a",
    "activations": "#d9822b",
    "gradients": "#6aa84f",
    "optimizer": "#a64d79",
    "cache": "#e4e4e4",
}


def used_by_nvml():
    """Bytes of the card in use, by anyone: this example has it to itself."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) * MIB


def main(folder):
    before = used_by_nvml()
    gpupool.torch.install()
    torch.zeros(1, device="cuda")
    # cuBLAS takes a workspace for this thread, and one for autograd's.
    warm = torch.ones(8, 8, device="cuda", requires_grad=True)
    (warm @ warm).sum().backward()
    del warm
    workspaces = torch.cuda.memory_allocated()
    phases = []

    def note(name, **parts):
        """parts: what is live by kind; the rest of what NVML sees is the context and the cache."""
        torch.cuda.synchronize()
        reserved = torch.cuda.memory_reserved()
        all_parts = {"CUDA context": used_by_nvml() - before - reserved, "workspaces": workspaces, **parts}
        all_parts["cache"] = reserved - sum(parts.values()) - workspaces
        assert sum(parts.values()) + workspaces == torch.cuda.memory_allocated(), name
        phases.append((name, all_parts))

    note("context")
    model = train_step.build(torch).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(train_step.VOCABULARY, (8, 513), device="cuda")
    parameters = torch.cuda.memory_allocated() - workspaces
    note("model", parameters=parameters)
    for number in (1, 2):
        optimizer_bytes = torch.cuda.memory_allocated() - workspaces - parameters
        scores = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        del scores
        live = torch.cuda.memory_allocated() - workspaces - parameters - optimizer_bytes
        note(f"forward {number}", parameters=parameters, activations=live, optimizer=optimizer_bytes)
        loss.backward()
        del loss
        gradients = torch.cuda.memory_allocated() - workspaces - parameters - optimizer_bytes
        note(f"backward {number}", parameters=parameters, gradients=gradients, optimizer=optimizer_bytes)
        optimizer.step()
        optimizer_bytes = torch.cuda.memory_allocated() - workspaces - parameters - gradients
        note(f"step {number}", parameters=parameters, gradients=gradients, optimizer=optimizer_bytes)
        optimizer.zero_grad()
    print_table(phases)
    path = Path(folder) / "phases.svg"
    path.write_text(picture(phases), encoding="utf-8")
    print(f"the picture is {path}")
    last = phases[-1][1]
    assert abs(last["gradients"] / parameters - 1) < 0.02, "a gradient is as large as its parameter"
    assert abs(last["optimizer"] / parameters - 2) < 0.02, "AdamW keeps two moments a parameter"
    assert last["CUDA context"] > 100 * MIB


def print_table(phases):
    print(f"{'MiB':14}" + "".join(f"{part:>14}" for part in PARTS))
    for name, parts in phases:
        print(f"{name:14}" + "".join(f"{parts.get(part, 0) / MIB:>14,.1f}" for part in PARTS))


def picture(phases):
    """One bar per phase."""
    highest = max(sum(parts.values()) for _, parts in phases)
    shapes = []
    for column, (name, parts) in enumerate(phases):
        left, top = 60 + column * 90, 340.0
        for part, colour in PARTS.items():
            height = 300 * parts.get(part, 0) / highest
            top -= height
            shapes.append(f'<rect x="{left}" y="{top:.1f}" width="64" height="{height:.1f}" fill="{colour}"/>')
        shapes.append(f'<text x="{left + 32}" y="358" text-anchor="middle">{name}</text>')
        total = f"{sum(parts.values()) / MIB:,.0f} MiB"
        shapes.append(f'<text x="{left + 32}" y="{top - 4:.1f}" text-anchor="middle">{total}</text>')
    for row, (part, colour) in enumerate(PARTS.items()):
        left = 80 + 90 * len(phases)
        shapes.append(f'<rect x="{left}" y="{40 + 22 * row}" width="14" height="14" fill="{colour}"/>')
        shapes.append(f'<text x="{left + 22}" y="{52 + 22 * row}">{part}</text>')
    width = 220 + 90 * len(phases)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="380" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="12">', *shapes, "</svg>", ""])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
