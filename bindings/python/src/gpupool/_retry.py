# SPDX-License-Identifier: Apache-2.0
"""Trying again when there was no memory."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from ._pool import pools
from ._status_errors import OutOfMemoryError

_Function = TypeVar("_Function", bound=Callable[..., Any])
Stage = Callable[[OutOfMemoryError], object]
"""Makes room after a failure."""


def collect_garbage(failure: OutOfMemoryError) -> None:
    """Frees the buffers that only cycles of Python objects keep."""
    gc.collect()


def empty_caches(failure: OutOfMemoryError) -> None:
    """The same, and gives what all pools of the process have cached back to their devices. May wait for the GPU."""
    gc.collect()
    for pool in list(pools.values()):
        if not pool.is_closed:
            pool.empty_cache()


@overload
def retry_on_oom(function: _Function, /) -> _Function: ...
@overload
def retry_on_oom(*, stages: Sequence[Stage] = ...) -> Callable[[_Function], _Function]: ...
def retry_on_oom(
    function: Callable[..., Any] | None = None, /, *, stages: Sequence[Stage] = (collect_garbage, empty_caches)
) -> Any:
    """A decorator: when the function raises OutOfMemoryError, makes room and calls it again, one stage after the
    other. After the last stage the error passes. The function must bear being called again.

        @gpupool.retry_on_oom
        def step(batch): ...

    stages are called with the error; give your own to do more, such as taking a smaller batch.
    """
    if function is None:
        return functools.partial(retry_on_oom, stages=stages)
    original = function

    @functools.wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        for stage in stages:
            try:
                return original(*arguments, **named)
            except OutOfMemoryError as error:
                # Without the traceback, whose frames would keep the buffers of the call that failed.
                failure = error.with_traceback(None)
                failure.__context__ = None
            stage(failure)
        return original(*arguments, **named)

    return wrapper
