# SPDX-License-Identifier: Apache-2.0
"""Trying again after running out of memory."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from ._pool import pools

_Function = TypeVar("_Function", bound=Callable[..., Any])
Stage = Callable[[Exception], object]
"""Makes room after a failure."""


def collect_garbage(failure: Exception) -> None:
    """Frees buffers that only cycles of Python objects keep alive."""
    gc.collect()


def empty_caches(failure: Exception) -> None:
    """The same, and gives the cached memory of all pools in the process back to their devices. May wait for the GPU."""
    gc.collect()
    for pool in list(pools.values()):
        if not pool.is_closed:
            pool.empty_cache()


# Frameworks' out-of-memory errors that are not MemoryErrors: the module, its class, and which of its errors count.
_SHORTAGES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("torch", "OutOfMemoryError", lambda error: True),
    ("torch.cuda", "OutOfMemoryError", lambda error: True),
    ("cupy.cuda.memory", "OutOfMemoryError", lambda error: True),
    # CUDA_ERROR_OUT_OF_MEMORY leaves the context as it was.
    ("numba.cuda.cudadrv.driver", "CudaAPIError", lambda error: getattr(error, "code", None) == 2),
    # Arrays donated to the call (donate_argnums) are gone; trying again then raises JAX's error for those.
    ("jax.errors", "JaxRuntimeError", lambda error: str(error).startswith("RESOURCE_EXHAUSTED")),
    ("jaxlib.xla_extension", "XlaRuntimeError", lambda error: str(error).startswith("RESOURCE_EXHAUSTED")),
)


def _is_shortage(error: Exception) -> bool:
    """Whether this is an out-of-memory error of the pool or of a framework. Imports nothing: the class of a raised
    error is already loaded."""
    if isinstance(error, MemoryError):
        return True
    for module, name, is_meant in _SHORTAGES:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(error, kind):
            return is_meant(error)
    return False


def _without_frames(error: Exception) -> Exception:
    """The error without its traceback, whose frames would keep the failed call's buffers."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


@overload
def retry_on_oom(function: _Function, /) -> _Function: ...
@overload
def retry_on_oom(*, stages: Sequence[Stage] = ...) -> Callable[[_Function], _Function]: ...
def retry_on_oom(
    function: Callable[..., Any] | None = None, /, *, stages: Sequence[Stage] = (collect_garbage, empty_caches)
) -> Any:
    """A decorator: when the function runs out of memory, it makes room and calls the function again, stage by stage.
    After the last stage the error propagates. The function must be safe to call again. It may be a coroutine function,
    which is awaited again; the stages then run in the event loop.

        @gpupool.retry_on_oom
        def step(batch): ...

    Any MemoryError counts as running out of memory, such as gpupool.OutOfMemoryError and RMM's, and so do the errors of
    PyTorch, CuPy, Numba and JAX. stages are called with the error; pass your own to do more, such as taking a smaller
    batch. Raises TypeError for a generator, which is partly consumed when it fails.
    """
    import inspect  # noqa: PLC0415  twice as slow to import as the rest of this package

    if function is None:
        return functools.partial(retry_on_oom, stages=stages)
    original = function
    if not callable(original):
        raise TypeError(f"function is {original!r}, which cannot be called")
    if inspect.isgeneratorfunction(original) or inspect.isasyncgenfunction(original):
        raise TypeError(
            f"retry_on_oom cannot try {original!r} again: it is a generator, and what it has yielded has been used; "
            "decorate what it calls"
        )

    @functools.wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        for stage in stages:
            try:
                return original(*arguments, **named)
            except Exception as error:
                if not _is_shortage(error):
                    raise
                failure = _without_frames(error)
            stage(failure)
        return original(*arguments, **named)

    @functools.wraps(original)
    async def coroutine_wrapper(*arguments: Any, **named: Any) -> Any:
        for stage in stages:
            try:
                return await original(*arguments, **named)
            except Exception as error:
                if not _is_shortage(error):
                    raise
                failure = _without_frames(error)
            stage(failure)
        return await original(*arguments, **named)

    call = getattr(original, "__call__", None)  # noqa: B004  an object's own, which may be a coroutine function
    is_coroutine = inspect.iscoroutinefunction(original) or inspect.iscoroutinefunction(call)
    return coroutine_wrapper if is_coroutine else wrapper
