# SPDX-License-Identifier: Apache-2.0
"""Frameworks on one pool.

    import gpupool

    gpupool.install("torch", "cupy", cap="40%")

From then on, these frameworks take their GPU memory from gpupool.default_pool(device), one for each device: what one of
them frees, the others use. docs/frameworks.md tells what each can do.
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
from .._pool import _default_pools
from .._status_errors import UnavailableError
from ._cap import Cap, apply_cap, parse_cap

Undo = Callable[[], object]


class _Framework(NamedTuple):
    title: str
    package: str
    module: str
    """Here. It has check(), which raises RuntimeError if the framework cannot be given the pool, and put(), which
    gives it and returns how to undo that. PyTorch's has install(cap), which does both or nothing."""
    is_engines: bool = False
    """It is put to sleep rather than given the pool: only where it is named."""
    may_be_missing: bool = False
    """What is put there does without it."""


# In the order of installing: what cannot be undone comes last.
_FRAMEWORKS = {
    "cupy": _Framework("CuPy", "cupy", "cupy"),
    "rmm": _Framework("RMM", "rmm", "rmm"),
    "warp": _Framework("Warp", "warp", "warp"),
    "triton": _Framework("Triton", "triton", "triton"),
    "cuda.core": _Framework("cuda.core", "cuda.core", "cuda_core"),
    "numba": _Framework("Numba", "numba", "numba"),
    "torch_memory_saver": _Framework(
        "torch_memory_saver", "torch_memory_saver", "torch_memory_saver", is_engines=True, may_be_missing=True
    ),
    "vllm": _Framework("vLLM", "vllm", "vllm", is_engines=True),
    "torch": _Framework("PyTorch", "torch", "torch"),
}

_NO_WAY_IN = {
    "jax": "JAX takes no allocator from outside; gpupool.jax.share(...) divides the device between it and the pool, "
    "and jax.dlpack.from_dlpack takes the pool's memory without a copy",
    "tensorflow": "TensorFlow takes no allocator from outside; tf.experimental.dlpack.from_dlpack takes the pool's "
    "memory without a copy",
}


class _State:
    """What was installed in this process."""

    names: set[str] = set()
    cap: Cap = Cap()


def install(*names: str, cap: str | float | None = None) -> None:
    """Gives the GPU memory of frameworks to the default pool of each device: of "torch", "cupy", "numba", "cuda.core",
    "triton", "rmm", "warp". Memory that they hold already stays as it is until they free it.

    "torch_memory_saver" and "vllm" are no frameworks: with these names, gpupool takes the place of what puts PyTorch's
    memory to sleep there (gpupool.torch.sleep, docs/elastic.md). Since 0.2.

    cap limits what each device's pool may hold: "40%" of the device, "8GiB", a number of bytes, or a fraction as a
    float. None leaves the limit as it is.

    All of it happens, or nothing. A framework that was installed before is left alone. Triton and cuda.core keep their
    settings by thread: call it in each thread that uses them.

    Raises ValueError for names and caps that are none, a cap above the device's memory among them; RuntimeError for a
    framework that is missing, has begun with another allocator, or cannot be served here, for another cap than
    before, and where there is no GPU; OverLimitError for a cap below what is in use.
    """
    wanted = [_known(name) for name in names]
    if not wanted:
        raise ValueError(f"name what to install: {_list(_FRAMEWORKS)}")
    limit = parse_cap(cap)
    if cap is not None and _State.names and limit != _State.cap:
        raise RuntimeError(
            f"{_list(sorted(_State.names))} share one pool already, with {_State.cap} as its cap, and "
            "all frameworks of a process have the same; to change it, call gpupool.default_pool(device).set_limit"
        )
    for name in wanted:
        _check_installed(name)
    new = [name for name in _FRAMEWORKS if name in wanted and (name not in _State.names or name in _BY_THREAD)]
    others = [name for name in new if name != "torch"]
    if others:
        _check_gpu()
        _check_cap(limit)
    for name in others:
        _module(name).check()
    _put(new, others, limit)
    _State.names.update(wanted)
    if cap is not None:
        _State.cap = limit


_BY_THREAD = ("triton", "cuda.core")


def installed() -> tuple[str, ...]:
    """The names of what was installed in this process."""
    return tuple(name for name in _FRAMEWORKS if name in _State.names)


def _put(new: list[str], others: list[str], limit: Cap) -> None:
    undo = [_limits()]
    now = "the cap"
    try:
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
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise ValueError(f'gpupool knows no framework "{name}"; {hint}It knows {_list(_FRAMEWORKS)}')


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
    """How to bring the limits back that there are now."""
    names = ("GPUPOOL_FRACTION", "GPUPOOL_LIMIT")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    limits = [(pool, pool.stats().limit_bytes) for pool in _default_pools.values()]

    def back() -> None:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(environment)
        for pool, limit in limits:
            pool.set_limit(limit)

    return back


def _as_given(limit: Cap) -> str | float:
    return limit.fraction if limit.fraction else limit.limit_bytes


def _module(name: str) -> Any:
    return importlib.import_module(f".{_FRAMEWORKS[name].module}", __name__)


def _list(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)
