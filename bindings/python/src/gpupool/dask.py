# SPDX-License-Identifier: Apache-2.0
"""gpupool in Dask's workers: a preload.

dask worker SCHEDULER --nworkers 4 --nthreads 1 --resources GPU=0.25 --preload gpupool.dask

Limits each worker's default pools to its resource GPU, or to gpupool.cap in Dask's configuration. The configuration may
also have gpupool.install, gpupool.share, gpupool.guaranteed and gpupool.priority: dask.config.set({"gpupool.share":
"team"}), or DASK_GPUPOOL__SHARE=team in the environment. It works with dask-cuda, which has a worker for each GPU, and
all of its options except --rmm-pool-size and similar ones. See docs/fleet.md. Since 0.2.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from typing import Any

from ._pool import _default_pools
from .frameworks import _known, install
from .frameworks._cap import apply_cap, parse_cap
from .frameworks._group import apply_group, parse_group

__all__ = ["dask_setup", "dask_teardown"]

dask: Any = importlib.import_module("dask")

_OPTIONS = ("cap", "install", "share", "guaranteed", "priority", "share_dir")
_GROUP = ("share", "guaranteed", "priority")


def _settings() -> dict[str, Any]:
    """What Dask's configuration says about gpupool. Raises ValueError."""
    given = dask.config.get("gpupool", None) or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"Dask's configuration has {given!r} as gpupool; it has {', '.join(_OPTIONS)} below that")
    settings = {str(name).replace("-", "_"): value for name, value in given.items() if value not in (None, "")}
    for name in settings:
        if name not in _OPTIONS:
            raise ValueError(f"Dask's configuration has gpupool.{name}; gpupool knows {', '.join(_OPTIONS)}")
    names = settings.get("install", ())
    settings["install"] = [
        _known(name.strip()) for name in (names.split(",") if isinstance(names, str) else names) if name.strip()
    ]
    if "cap" in settings:
        parse_cap(settings["cap"])
    parse_group(*(settings.get(name) for name in _GROUP))
    return settings


# Dask only logs what dask_setup raises, so refuse here what can be refused: then the worker does not start.
_GIVEN = _settings()


def dask_setup(worker: Any) -> None:
    """Dask calls this when a worker has started. Ends the worker if its pools cannot be limited or a framework cannot
    use them, because the worker would take more than its part."""
    try:
        if "share_dir" in _GIVEN:
            os.environ["GPUPOOL_SHARE_DIR"] = str(_GIVEN["share_dir"])
        cap = _GIVEN.get("cap", _cap_of_resources(worker))
        group = {name: _GIVEN.get(name) for name in _GROUP}
        if _GIVEN["install"]:
            install(*_GIVEN["install"], cap=cap, **group)
        else:
            apply_group(parse_group(**group))
            apply_cap(parse_cap(cap))
    except Exception as error:
        logging.getLogger("distributed.worker").critical("gpupool: %s: the worker ends", error)
        raise SystemExit(f"gpupool: {error}") from error


def dask_teardown(worker: Any) -> None:
    """Dask calls this when a worker ends: memory that its pools have cached goes back at once."""
    del worker
    for pool in list(_default_pools.values()):
        pool.empty_cache()


def _cap_of_resources(worker: Any) -> float | None:
    amount = worker.state.total_resources.get("GPU")
    if amount is None or amount >= 1:
        return None
    if amount <= 0:
        raise ValueError(f"this worker's resource GPU is {amount}; it is a part of one, such as 0.25")
    return float(amount)
