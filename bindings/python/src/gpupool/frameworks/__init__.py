# SPDX-License-Identifier: Apache-2.0
"""Frameworks on one pool.

    import gpupool

    gpupool.install("torch", "cupy", cap="40%")

From then on, these frameworks take their GPU memory from gpupool.default_pool(device), one per device: what one of them
frees, the others can use. docs/frameworks.md says what each can do.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from .._error import Error
from .._library import device_count, device_info
from .._status_errors import UnavailableError
from ._cap import Cap, apply_cap, keep_caps, parse_cap, settle_place
from ._group import Group, apply_group, kept_group, parse_group, restore_group
from ._mode import apply_mode, check_mode

Undo = Callable[[], object]


class _Framework(NamedTuple):
    title: str
    package: str
    module: str
    """In this package. It has check(), which raises RuntimeError if the framework cannot use the pool, and put(), which
    installs the pool and returns a function that undoes it. PyTorch's has install(cap), which does both or nothing."""
    is_engines: bool = False
    """It provides sleep, and does not use the pool itself: installed only by name."""
    may_be_missing: bool = False
    """Its replacement works without it."""


# In the order of installation: steps that cannot be undone come last.
_FRAMEWORKS = {
    "cupy": _Framework("CuPy", "cupy", "cupy"),
    "rmm": _Framework("RMM", "rmm", "rmm"),
    "warp": _Framework("Warp", "warp", "warp"),
    "triton": _Framework("Triton", "triton", "triton"),
    "cuda.core": _Framework("cuda.core", "cuda.core", "cuda_core"),
    "numba": _Framework("Numba", "numba", "numba"),
    "onnxruntime": _Framework("ONNX Runtime", "onnxruntime", "onnxruntime"),
    "torch_memory_saver": _Framework(
        "torch_memory_saver", "torch_memory_saver", "torch_memory_saver", is_engines=True, may_be_missing=True
    ),
    "vllm": _Framework("vLLM", "vllm", "vllm", is_engines=True),
    "torch": _Framework("PyTorch", "torch", "torch"),
}

_NO_WAY_IN = {
    "jax": "JAX accepts no outside allocator; gpupool.jax.share(...) divides the device between it and the pool, "
    "and jax.dlpack.from_dlpack takes the pool's memory without a copy",
    "tensorflow": "TensorFlow accepts no outside allocator; tf.experimental.dlpack.from_dlpack takes the pool's "
    "memory without a copy",
}


class _State:
    """What is installed in this process."""

    names: set[str] = set()
    cap: Cap = Cap()
    group: Group = Group()


def install(
    *names: str,
    cap: str | float | None = None,
    share: str | None = None,
    guaranteed: int | str | None = None,
    priority: int | None = None,
    mode: str | None = None,
) -> None:
    """Makes frameworks use the default pool of each device for GPU memory: "torch", "cupy", "numba", "cuda.core",
    "triton", "rmm", "warp", "onnxruntime" (since 0.2). Memory that they already hold stays as it is until they free it.

    "torch_memory_saver" and "vllm" are not frameworks: with these names, gpupool replaces what puts PyTorch's memory to
    sleep there (gpupool.torch.sleep, docs/sleep.md). Since 0.2.

    cap limits what each device's pool may hold: "40%" of the device, "8GiB", a number of bytes, a fraction as a float,
    or "auto", the share that torchrun, MPI, Slurm or Ray has given this process (docs/fleet.md). It lifts no other
    limit: the smallest holds (docs/fleet.md#which-limit-holds). None leaves them as they are.

    share is the group of processes to share each device's memory with (docs/sharing.md), as GPUPOOL_SHARE in the
    environment; guaranteed, "8GiB" or "10%" of the device, is this process's own of it, and priority, -8 to 8, says who
    gives first and who gets first. None leaves it to the environment. Since 0.2.

    mode is how the pools get their memory, as GPUPOOL_MODE in the environment: "auto", "vmm" or "driver", as for Pool.
    None leaves it to the environment. Since 0.2.

    Either everything is installed or nothing. A framework that is already installed is left alone. Triton and cuda.core
    keep their settings per thread: call it in each thread that uses them.

    Raises ValueError for unknown names, bad caps, modes and groups, including a cap above the device's memory;
    RuntimeError for a framework that is missing, has started with another allocator, or cannot be served here, for a
    cap or group that differs from the earlier one, for a group or mode if a default pool already exists without it, and
    if there is no GPU; OverLimitError for a cap below current use.
    """
    wanted = [_known(name) for name in names]
    if not wanted:
        raise ValueError(f"name what to install: {_list(_FRAMEWORKS)}")
    limit = parse_cap(cap)
    if cap is not None and _State.names and limit != _State.cap:
        raise RuntimeError(
            f"{_list(sorted(_State.names))} already share one pool, with {_State.cap} as its cap, and "
            "all frameworks of a process have the same; gpupool.default_pool(device).set_limit can lower it"
        )
    group = parse_group(share, guaranteed, priority)
    if group.share and _State.names and group != _State.group:
        raise RuntimeError(
            f"{_list(sorted(_State.names))} share one pool already, with {_State.group}, and all frameworks of a "
            "process have the same"
        )
    check_mode(mode)
    for name in wanted:
        _check_installed(name)
    new = [name for name in _FRAMEWORKS if name in wanted and (name not in _State.names or name in _BY_THREAD)]
    others = [name for name in new if name != "torch"]
    if others:
        _check_gpu()
        _check_cap(limit)
    for name in others:
        _module(name).check()
    if new:
        settle_place()
    _put(new, others, limit, group, mode)
    _State.names.update(wanted)
    if cap is not None:
        _State.cap = limit
    if group.share:
        _State.group = group


_BY_THREAD = ("triton", "cuda.core")


def installed() -> tuple[str, ...]:
    """The names of everything installed in this process."""
    return tuple(name for name in _FRAMEWORKS if name in _State.names)


def _put(new: list[str], others: list[str], limit: Cap, group: Group, mode: str | None) -> None:
    undo = [_limits(), apply_mode(mode)]
    now = "the cap"
    try:
        apply_group(group)
        apply_cap(limit)
        for name in others:
            now = _FRAMEWORKS[name].title
            undo.append(_module(name).put())
        if "torch" in new:
            now = "PyTorch"
            _module("torch").install(None if limit == Cap() else _as_given(limit))
    except BaseException as error:
        for back in reversed(undo):
            back()
        if isinstance(error, (Error, RuntimeError)) or not isinstance(error, Exception):
            raise
        raise RuntimeError(f"{now} refused gpupool, and nothing was installed: {error}") from error


def _known(name: str) -> str:
    if name in _FRAMEWORKS:
        return name
    if name in _NO_WAY_IN:
        raise ValueError(_NO_WAY_IN[name])
    close = difflib.get_close_matches(name.lower(), _FRAMEWORKS, 1)
    hint = f'did you mean "{close[0]}"?' if close else f"it knows {_list(_FRAMEWORKS)}"
    raise ValueError(f'gpupool knows no framework "{name}"; {hint}')


def _check_installed(name: str) -> None:
    framework = _FRAMEWORKS[name]
    if framework.may_be_missing:
        return
    try:
        found = importlib.util.find_spec(framework.package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise RuntimeError(f'gpupool.install("{name}"): {framework.title} is not installed in this Python')


def _check_gpu() -> None:
    if os.environ.get("GPUPOOL_BACKEND") == "sim":
        raise RuntimeError(
            "GPUPOOL_BACKEND=sim asks for the simulated device, whose memory no GPU can use: take it out of the "
            "environment"
        )
    try:
        device_count("cuda")
    except UnavailableError as error:
        raise RuntimeError(f"there is no GPU for gpupool to pool: {error}") from error


def _check_cap(limit: Cap) -> None:
    if limit.limit_bytes:
        device = device_info(0)
        if limit.limit_bytes > device.total_bytes:
            raise ValueError(f"cap is {limit}, more than the {device.total_bytes} bytes of {device.name}")


def _limits() -> Undo:
    """A function that restores the current limits."""
    kept, uncap = kept_group(), keep_caps()

    def back() -> None:
        restore_group(kept)
        uncap()

    return back


def _as_given(limit: Cap) -> str | float:
    return limit.fraction if limit.fraction else limit.limit_bytes


def _module(name: str) -> Any:
    return importlib.import_module(f".{_FRAMEWORKS[name].module}", __name__)


def _list(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)
