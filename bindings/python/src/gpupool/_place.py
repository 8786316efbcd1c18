# SPDX-License-Identifier: Apache-2.0
"""Which device a process should use, and how much of it, according to what the launcher left in its environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from ._claims import find_claim, number
from ._library import device_count


class Place(NamedTuple):
    """Where a process belongs."""

    launcher: str
    """ "torchrun", "openmpi", "mvapich2", "mpich", "pmi", "slurm", "ray", or "" where nothing has started it."""
    rank: int
    local_rank: int
    local_size: int
    device: int
    """Its device, of those that it sees."""
    share: float
    """Its part of that device's memory, of up to 1; 0 where Ray has given it no GPU."""


def place(environ: Mapping[str, str] | None = None, *, devices: int | None = None) -> Place:
    """Finds the place of this process in the launcher's variables (in `environ` instead of os.environ, if given), or,
    in a worker of Ray, asks Ray. Ranks go to devices in turn, and those on one device have equal shares; with Slurm, of
    the job's shards or MPS percentage.

    devices: how many this process sees. By default CUDA_VISIBLE_DEVICES tells; without it, the driver, if the number
    matters. If each rank sees other devices and its environment does not show that, GPUPOOL_RANKS_PER_DEVICE says how
    many ranks have the same device.

    Raises ValueError for variables that are nonsense or contradict each other.
    """
    if environ is None:
        found = _of_ray()
        if found is not None:
            return found
        environ = os.environ
    claim = find_claim(environ)
    part = _part_of_job(environ)
    if claim is None or claim.local_size is None:
        return Place("", 0, 0, 1, 0, part)
    if devices is None:
        devices = _visible(environ)
    device, ranks = _device(environ, claim.local_rank, claim.local_size, devices)
    return Place(claim.launcher, claim.rank, claim.local_rank, claim.local_size, device, part / ranks)


def in_ray_worker() -> bool:
    """Whether this process is a worker of Ray. Neither imports Ray nor starts it."""
    ray = sys.modules.get("ray")
    return (
        ray is not None
        and hasattr(ray, "is_initialized")
        and ray.is_initialized()
        and ray.get_runtime_context().worker.mode == ray.WORKER_MODE
    )


def _of_ray() -> Place | None:
    if not in_ray_worker():
        return None
    context = sys.modules["ray"].get_runtime_context()
    amount = float(context.get_assigned_resources().get("GPU", 0))
    ids = [str(each) for each in context.get_accelerator_ids().get("GPU", [])]
    # Ray shows a task its own devices only, unless told to leave CUDA_VISIBLE_DEVICES alone.
    is_shown = not ids or os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") == ids
    device = 0 if is_shown or not ids[0].isdigit() else int(ids[0])
    return Place("ray", 0, 0, 1, device, min(amount, 1.0))


def _visible(environ: Mapping[str, str]) -> int | None:
    """How many devices CUDA_VISIBLE_DEVICES shows; None if it is not set."""
    text = environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    shown = 0
    for each in text.split(","):
        if each.strip() in ("", "-1"):
            break  # CUDA stops there
        shown += 1
    if shown == 0:
        raise ValueError(f"CUDA_VISIBLE_DEVICES is {text!r}, which hides every GPU")
    return shown


def _device(environ: Mapping[str, str], rank: int, ranks: int, visible: int | None) -> tuple[int, int]:
    """A rank's device, and how many ranks have the same."""
    stated = number(environ, "GPUPOOL_RANKS_PER_DEVICE")
    if stated is not None and not 0 < stated <= ranks:
        raise ValueError(f"GPUPOOL_RANKS_PER_DEVICE is {stated}; this machine has {ranks} ranks")
    if ranks == 1:
        return 0, 1
    if visible is None:
        visible = device_count()
    each = _gpus_for_task(environ)
    if each is not None:
        if visible <= each:
            return 0, stated or 1
        if (rank + 1) * each > visible:
            raise ValueError(f"SLURM_GPUS_PER_TASK is {each}, and task {rank} of this machine sees {visible} devices")
        return rank * each, stated or 1
    on_node = number(environ, "SLURM_GPUS_ON_NODE")
    if stated is None and on_node is not None and visible < on_node:
        stated = max(1, -(-ranks * visible // on_node))  # Slurm shows each task a part of them
    device = rank % visible
    return device, stated or len(range(device, ranks, visible))


def _gpus_for_task(environ: Mapping[str, str]) -> int | None:
    """Of `--gpus-per-task=a100:2`."""
    text = environ.get("SLURM_GPUS_PER_TASK", "").strip()
    if not text:
        return None
    found = re.fullmatch(r"(?:[\w.-]+:)?([1-9][0-9]{0,3})", text)
    if found is None:
        raise ValueError(f'SLURM_GPUS_PER_TASK is {text!r}, not a number such as 1 or "a100:1"')
    return int(found[1])


def _part_of_job(environ: Mapping[str, str]) -> float:
    """The part of a device that Slurm has given a job: shards, or a percentage of MPS."""
    if not environ.get("SLURM_JOB_ID"):
        return 1.0
    shards = number(environ, "SLURM_SHARDS_ON_NODE")
    if shards:
        whole = number(environ, "GPUPOOL_SHARDS_PER_DEVICE")
        if not whole:
            raise ValueError(
                f"SLURM_SHARDS_ON_NODE is {shards}, and GPUPOOL_SHARDS_PER_DEVICE is not set: how many shards has a "
                "device? gres.conf tells"
            )
        return min(shards / whole, 1.0)
    percentage = environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "").strip()
    if not percentage:
        return 1.0
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", percentage) or not 0 < float(percentage) <= 100:
        raise ValueError(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is {percentage!r}, not above 0 and up to 100")
    return float(percentage) / 100
