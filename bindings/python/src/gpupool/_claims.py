# SPDX-License-Identifier: Apache-2.0
"""What the launchers' variables say about a process: its rank, and how many ranks its machine has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class _Launcher(NamedTuple):
    """The variables of one launcher. The innermost one comes first in _LAUNCHERS: the others start torchrun."""

    name: str
    local_rank: str
    local_size: str
    rank: str
    size: str


_LAUNCHERS = (
    _Launcher("torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE"),
    _Launcher(
        "openmpi",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ),
    _Launcher(
        "mvapich2",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
    ),
    _Launcher("mpich", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE"),
    _Launcher("pmi", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE"),
    # Its local size is one number of a list. It counts inside srun only, not in a batch script.
    _Launcher("slurm", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
LAUNCHERS = tuple(launcher.name for launcher in _LAUNCHERS)


class Claim(NamedTuple):
    """What one launcher says."""

    launcher: str
    local_rank: int
    local_size: int | None
    """None: it does not say."""
    rank: int
    words: str
    """The same as the environment has it, for messages."""
    missing: str
    """The variable that would have the local size."""


def find_claim(environ: Mapping[str, str]) -> Claim | None:
    """The claim that holds; None if no launcher has left one. Raises ValueError if variables are nonsense, or if two
    launchers contradict each other."""
    claims = [claim for launcher in _LAUNCHERS if (claim := _claim(launcher, environ)) is not None]
    wanted = environ.get("GPUPOOL_LAUNCHER", "").strip()
    if wanted:
        if wanted not in LAUNCHERS:
            raise ValueError(f"GPUPOOL_LAUNCHER is {wanted!r}; it is one of {', '.join(LAUNCHERS)}")
        claims = [claim for claim in claims if claim.launcher == wanted]
        if not claims:
            raise ValueError(f"GPUPOOL_LAUNCHER is {wanted}, whose variables are not set")
    if not claims:
        _check_no_rank_alone(environ)
        return None
    found = next((claim for claim in claims if claim.local_size is not None), None)
    if found is None:
        raise ValueError(f"{claims[0].words}, and {claims[0].missing} is not set: how many ranks has this machine?")
    for other in claims:
        # A launcher with one rank a machine has started the other launcher there.
        differs = other.local_rank != found.local_rank or other.local_size not in (None, found.local_size)
        if differs and other.local_size != 1:
            raise ValueError(
                f"{found.words}, but {other.words}: unset what is stale, or name the launcher that counts in "
                "GPUPOOL_LAUNCHER"
            )
    return found


def number(environ: Mapping[str, str], name: str) -> int | None:
    """A variable that is a count or a rank; None if it is unset or empty. Raises ValueError."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(f"{name} is {text!r}, not a number from 0")
    return int(text)


def _claim(launcher: _Launcher, environ: Mapping[str, str]) -> Claim | None:
    local_rank = number(environ, launcher.local_rank)
    if local_rank is None or (launcher.name == "slurm" and not environ.get(launcher.local_size, "").strip()):
        return None
    local_size = _slurm_tasks(environ) if launcher.name == "slurm" else number(environ, launcher.local_size)
    rank, size = number(environ, launcher.rank), number(environ, launcher.size)
    words = f"{launcher.local_rank} is {local_rank}"
    if local_size is not None:
        words += f" with {launcher.local_size} {environ[launcher.local_size].strip()}"
        _check_below(words, local_rank, local_size)
    if rank is not None and size is not None:
        _check_below(f"{launcher.rank} is {rank} with {launcher.size} {size}", rank, size)
    if size is not None and local_size is not None and local_size > size:
        raise ValueError(f"{words}, but {launcher.size} is {size}: fewer ranks in all than on this machine")
    return Claim(
        launcher.name, local_rank, local_size, local_rank if rank is None else rank, words, launcher.local_size
    )


def _check_below(words: str, rank: int, size: int) -> None:
    if rank >= size:
        raise ValueError(f"{words}: ranks are 0 to {size - 1}" if size else f"{words}: there are no ranks")


def _slurm_tasks(environ: Mapping[str, str]) -> int:
    """This machine's number of "2(x3),1": two tasks on each of three machines, one on the fourth."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    node, left = number(environ, "SLURM_NODEID") or 0, number(environ, "SLURM_NODEID") or 0
    for part in environ[name].strip().split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part)
        if found is None:
            raise ValueError(f'{name} is {environ[name]!r}, not a list such as "2(x3),1"')
        if left < int(found[2] or 1):
            return int(found[1])
        left -= int(found[2] or 1)
    raise ValueError(f"SLURM_NODEID is {node}, beyond the machines of {name}, {environ[name]!r}")


def _check_no_rank_alone(environ: Mapping[str, str]) -> None:
    """Refuses several ranks that cannot be told apart: each would take the whole of device 0."""
    for launcher in _LAUNCHERS:
        size = number(environ, launcher.size) or 1
        if launcher.name != "slurm" and size > 1 and number(environ, launcher.rank) is not None:
            raise ValueError(
                f"{launcher.rank} and {launcher.size} are set, and {launcher.local_rank} is not: which rank of its "
                "machine is this?"
            )
