# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch.

    import torch
    import gpupool

    gpupool.install("torch", cap="40%")     # all of PyTorch's GPU memory, before the first of it is used

    with gpupool.torch.mem_pool():          # or only what is allocated in here, at any time
        model = build()

After install, torch.cuda's own functions report gpupool: memory_allocated, memory_stats, memory_summary,
memory_snapshot, empty_cache, set_per_process_memory_fraction. A shortage raises torch.OutOfMemoryError, which says
where the memory is; without a compiler or a shim for this PyTorch, a RuntimeError with the same text. docs/pytorch.md
has the details.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _torch_cache, _torch_plain, _torch_shim
from ._cap import Cap, apply_cap, parse_cap, settle_place

_OLDEST = (2, 6)


class _State:
    """What is installed in this process."""

    mode: str = ""
    cap: Cap = Cap()
    mem_pools: dict[int, Any] = {}


def install(cap: str | float | None = None) -> str:
    """Makes PyTorch take all CUDA memory from the default pool of each device; returns "shim" or "pluggable", the way
    it chose.

    cap: "40%" of the device, "8GiB", a number of bytes, or a fraction as a float; None leaves the limit as it is.

    The package has a small library for each of the newest releases of PyTorch. For others, this compiles one the first
    time, in about ten seconds. If that fails, a warning says why, and gpupool uses PyTorch's pluggable interface, which
    can do less: see docs/pytorch.md.
    GPUPOOL_TORCH_SHIM=0 in the environment selects that interface.

    Raises RuntimeError if PyTorch has already used its own allocator, is not installed, is older than 2.6 or sees no
    GPU, or if gpupool is in place with another cap; ValueError for a bad cap; OverLimitError for one below current use.
    """
    wanted = parse_cap(cap)
    if _State.mode:
        if cap is None or wanted == _State.cap:
            return _State.mode
        raise RuntimeError(
            f"gpupool is already PyTorch's allocator, with {_State.cap} as its cap; "
            "torch.cuda.set_per_process_memory_fraction and gpupool.default_pool(device).set_limit can lower it"
        )
    torch = _import_torch()
    _check_ready(torch)
    settle_place()
    apply_cap(wanted)
    _State.mode = _install(torch)
    _State.cap = wanted
    return _State.mode


def installed() -> str:
    """ "shim" or "pluggable" after install, else ""."""
    return _State.mode


def create_mem_pool() -> Any:
    """A torch.cuda.MemPool whose segments come from gpupool's default pool. They go back when the MemPool and all its
    tensors are gone."""
    torch = _import_torch()
    if _State.mode == "shim":
        return torch.cuda.MemPool()
    if _State.mode:
        raise RuntimeError("gpupool already serves all of PyTorch's memory; a separate MemPool needs the shim")
    return torch.cuda.MemPool(_torch_plain.create(torch, "gpupool_torch_alloc").allocator())


@contextmanager
def mem_pool(device: Any = None, *, pool: Any = None) -> Iterator[Any]:
    """Inside the `with`, memory that this thread allocates on a device (the current one by default) comes from gpupool,
    through PyTorch's own cache. pool is what create_mem_pool returned; without it, each device has one for the whole
    process.

    Other threads are not affected, not even autograd's, so what backward allocates stays outside.
    """
    torch = _import_torch()
    if _State.mode == "pluggable":
        yield None
        return
    index = torch.cuda.current_device() if device is None else torch.device(device).index or 0
    if pool is None:
        if index not in _State.mem_pools:
            _State.mem_pools[index] = create_mem_pool()
        pool = _State.mem_pools[index]
    with torch.cuda.use_mem_pool(pool, device=index):
        yield pool


def _import_torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise RuntimeError('gpupool.install("torch"): PyTorch is not installed') from error
    if torch.version.cuda is None:
        raise RuntimeError(f"PyTorch {torch.__version__} was built without CUDA; gpupool has nothing to serve")
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < _OLDEST:
        raise RuntimeError(f"PyTorch {torch.__version__} is too old: gpupool serves 2.6 and later")
    return torch


def _check_ready(torch: Any) -> None:
    if os.environ.get("GPUPOOL_BACKEND") == "sim":
        raise RuntimeError(
            "GPUPOOL_BACKEND=sim asks for the simulated device, whose memory no GPU can use: take it out of the "
            "environment"
        )
    if torch.cuda.is_initialized():
        raise RuntimeError(_TOO_LATE)
    if torch.cuda.get_allocator_backend() == "pluggable":
        raise RuntimeError(
            "PyTorch already has another library's allocator (torch.cuda.memory.change_current_allocator); it "
            "accepts one per process. Leave that call out, or use gpupool.torch.mem_pool()"
        )
    if torch.cuda.device_count() == 0:
        raise RuntimeError("PyTorch sees no GPU (torch.cuda.device_count() is 0), so it has no memory to pool")


def _wants_shim() -> bool:
    wanted = os.environ.get("GPUPOOL_TORCH_SHIM", "")
    if wanted not in ("", "0", "1"):
        raise ValueError(f'GPUPOOL_TORCH_SHIM is "{wanted}", not 0 or 1')
    return wanted != "0"


def _install(torch: Any) -> str:
    if torch.cuda.get_allocator_backend() == "cudaMallocAsync":
        warnings.warn(
            "gpupool replaces PyTorch's backend cudaMallocAsync, which PYTORCH_ALLOC_CONF asks for",
            RuntimeWarning,
            stacklevel=3,
        )
    if _wants_shim():
        try:
            if _torch_shim.load(torch).gpupool_torch_install() != 0:
                raise RuntimeError(_TOO_LATE)
            return "shim"
        except _torch_cache.ShimError as error:
            warnings.warn(
                f"gpupool's allocator for PyTorch could not be built: {error}. PyTorch's pluggable interface is used: "
                "a shortage raises RuntimeError, and the history of allocations is not recorded",
                RuntimeWarning,
                stacklevel=3,
            )
    _torch_plain.install(torch)
    return "pluggable"


_TOO_LATE = (
    'gpupool.install("torch") comes too late: PyTorch has set up CUDA with an allocator of its own, and keeps it. Call '
    "it right after `import torch`, before anything that uses the GPU, or set GPUPOOL_INSTALL=torch in the "
    "environment. For a part of the program, `with gpupool.torch.mem_pool():` works at any time"
)
