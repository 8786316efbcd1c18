# SPDX-License-Identifier: Apache-2.0
"""gpupool in Ray: num_gpus=0.25 is a quarter of the device's memory.

    ray.init(runtime_env=gpupool.ray.runtime_env(install=["torch"], share="team"))

    @ray.remote(num_gpus=0.25)
    def work(): ...

Ray itself only counts num_gpus. With gpupool it is the limit of a worker's default pools. A worker that ends or is
killed gives all of its memory back at once. See docs/fleet.md. Since 0.2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._place import Place, in_ray_worker
from .frameworks import _known
from .frameworks._cap import adopt_place
from .frameworks._environment import activate
from .frameworks._group import parse_group

__all__ = ["adopt", "runtime_env", "setup"]

_OPTIONS = {
    "install": "GPUPOOL_INSTALL",
    "cap": "GPUPOOL_CAP",
    "share": "GPUPOOL_SHARE",
    "guaranteed": "GPUPOOL_SHARE_GUARANTEED",
    "priority": "GPUPOOL_SHARE_PRIORITY",
    "share_dir": "GPUPOOL_SHARE_DIR",
}


def runtime_env(
    *,
    install: str | Iterable[str] = (),
    cap: str = "auto",
    share: str = "",
    guaranteed: str = "",
    priority: int = 0,
    share_dir: str = "",
    **others: Any,
) -> dict[str, Any]:
    """A runtime_env for ray.init, or for one task or actor. Its workers have num_gpus as their limit and these
    frameworks on the pool. others: other fields of the runtime_env; its env_vars are kept, and take precedence.

    Raises ValueError for unknown frameworks and invalid groups, TypeError for options that are no text.
    """
    given = {
        "install": install,
        "cap": cap,
        "share": share,
        "guaranteed": guaranteed,
        "priority": priority or "",
        "share_dir": share_dir,
    }
    return {**others, "env_vars": {**variables(given), **others.get("env_vars", {})}}


def variables(options: Mapping[str, Any]) -> dict[str, str]:
    """The environment that these options of runtime_env stand for. Raises ValueError, TypeError."""
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise ValueError(f"gpupool has no option {unknown[0]!r} in a runtime_env; it has {', '.join(_OPTIONS)}")
    found = {}
    for name, value in options.items():
        text = value
        if name == "install":
            text = ",".join(
                _known(each.strip()) for each in (value.split(",") if isinstance(value, str) else value) if each
            )
        elif name == "priority" and value != "":
            text = str(int(value))
        if not isinstance(text, str):
            raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; it is a text")
        if text:
            found[_OPTIONS[name]] = text
    if options.get("share"):
        parse_group(options["share"], options.get("guaranteed") or None, int(options.get("priority") or 0))
    return found


def setup() -> None:
    """For runtime_env's worker_process_setup_hook: "gpupool.ray.setup". Limits the worker to what its tasks ask for,
    as GPUPOOL_CAP=auto does, unless GPUPOOL_CAP says something else."""
    os.environ.setdefault("GPUPOOL_CAP", "auto")
    activate()


def adopt() -> Place:
    """Limits this worker's default pools to what the current task has asked for. That happens by itself once in a
    worker; call it if one worker runs tasks with different num_gpus, as with max_calls=0.

    Raises RuntimeError outside of Ray's workers, and if the task has no GPU; OverLimitError if more is in use.
    """
    if not in_ray_worker():
        raise RuntimeError("gpupool.ray.adopt() is for tasks and actors of Ray: this process is no worker of it")
    return adopt_place()
