# SPDX-License-Identifier: Apache-2.0
"""Out of memory: what the error says, recovering in stages, and finding the batch size that fits.

python out_of_memory.py
"""

import gc

import gpupool.torch
import torch

GIB = 1 << 30


def step(model, batch):
    """A forward and a backward pass that need about 50 MiB for each row of the batch."""
    given = torch.randn(batch, 1024, 1024, device="cuda")
    loss = model(given).square().mean()
    loss.backward()
    return loss.item()


def largest_batch(model, batch):
    """Halves the batch until it fits, as Accelerate's find_executable_batch_size does."""
    while batch:
        try:
            step(model, batch)
            return batch
        except torch.OutOfMemoryError:
            batch //= 2
        model.zero_grad()
    raise RuntimeError("not even one row fits")


def main():
    gpupool.torch.install(cap="8GiB")
    print(f"limit: {torch.cuda.get_per_process_memory_fraction():.3f} of the card")

    kept = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(7)]
    try:
        torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
        raise AssertionError("2 GiB fitted beside 7 under a limit of 8")
    except torch.OutOfMemoryError as error:
        print(f"\n{error}\n")
        assert "Tried to allocate 2.00 GiB" in str(error)

    # Stage 1: free memory in pieces needs no help, because the pool maps it together.
    del kept[::2]
    block = torch.empty(3 * GIB, dtype=torch.uint8, device="cuda")
    print(f"3 GiB from freed pieces of 1 GiB: {torch.cuda.memory_reserved() / GIB:.0f} GiB reserved")
    assert torch.cuda.memory_reserved() == 7 * GIB
    del block

    # Stage 2: memory that only a cycle of Python objects keeps.
    cycle = [kept.pop()]
    cycle.append(cycle)
    del cycle
    before = torch.cuda.memory_allocated()
    gc.collect()
    print(f"garbage collection: {(before - torch.cuda.memory_allocated()) / GIB:.0f} GiB")
    assert before - torch.cuda.memory_allocated() == GIB

    # Stage 3: give the cache back to the driver, for others on the card.
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    print(f"empty_cache: {(before - torch.cuda.memory_reserved()) / GIB:.0f} GiB back to the driver")
    assert torch.cuda.memory_reserved() == torch.cuda.memory_allocated() == 2 * GIB
    kept.clear()

    # Stage 4: a smaller batch.
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(6)))
    batch = largest_batch(model.cuda(), 1024)
    print(f"the largest batch that fits in 8 GiB: {batch}; peak {torch.cuda.max_memory_reserved() / GIB:.2f} GiB")
    assert 32 <= batch <= 256
    assert torch.cuda.max_memory_reserved() <= 8 * GIB
    print(f"{torch.cuda.memory_stats()['num_ooms']} shortages, and all is well")


if __name__ == "__main__":
    main()
