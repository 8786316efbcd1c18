# SPDX-License-Identifier: Apache-2.0
"""Tensors between processes: each sees what the other writes, and the memory comes back. test_torch.py runs this."""

import gc
import traceback

import gpupool.torch
import torch

SIZES = (1000, 3 << 20, 70 << 20)


def other(received, sent):
    try:
        change(received, sent)
    except Exception:
        sent.put(traceback.format_exc())


def change(received, sent):
    gpupool.torch.install()
    tensors = [received.get() for _ in SIZES]
    for size, tensor in zip(SIZES, tensors, strict=True):
        assert tensor.numel() == size and bool((tensor == size % 1000).all())
        tensor.add_(1)
    torch.cuda.synchronize()
    sent.put("done")
    assert received.get() == "end"
    del tensors, tensor


def main():
    gpupool.torch.install()
    multiprocessing = torch.multiprocessing.get_context("spawn")
    received, sent = multiprocessing.Queue(), multiprocessing.Queue()
    process = multiprocessing.Process(target=other, args=(received, sent))
    process.start()
    tensors = [torch.full((size,), size % 1000, dtype=torch.int32, device="cuda") for size in SIZES]
    torch.cuda.synchronize()
    for tensor in tensors:
        received.put(tensor)
    print("sent", len(tensors))
    answer = sent.get(timeout=120)
    assert answer == "done", answer
    assert all(bool((tensor == tensor.numel() % 1000 + 1).all()) for tensor in tensors)
    print("changed by the other process")
    received.put("end")
    process.join(120)
    assert process.exitcode == 0
    del tensors, tensor
    gc.collect()
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= 4 << 20, torch.cuda.memory_reserved()
    print("given back")


if __name__ == "__main__":
    main()
