# SPDX-License-Identifier: Apache-2.0
"""Samples and recordings."""

from __future__ import annotations

import os
from typing import Literal

from ._enums import RecordFlag
from ._error import check
from ._native import ffi, lib
from ._tags import text_of

Stacks = Literal["none", "native", "language", "all"]

_FLAGS: dict[str, int] = {
    "none": 0,
    "native": RecordFlag.NATIVE_STACKS,
    "language": RecordFlag.LANGUAGE_STACKS,
    "all": RecordFlag.NATIVE_STACKS | RecordFlag.LANGUAGE_STACKS,
}


def set_sampling(size: int) -> None:
    """Sets how densely allocations of all pools are sampled: the minimum mean distance of samples in bytes; 0: no more
    samples. Since 0.2."""
    check(lib.gpupool_set_sampling(size))


def record_start(path: str | os.PathLike[str], stacks: Stacks = "language") -> None:
    """Records every allocation and free of all pools of this process to a new file, which the gpupool command reads;
    "%p" in the path becomes the process's number, and "FILE,last=512MiB" or "FILE,last=10min" keeps the newest events
    in FILE and FILE.old. stacks: which frames of the caller to record; "language" means
    Python's. Raises InvalidArgumentError (also if the path exists, or a recording is in progress), ValueError. Since
    0.2."""
    if stacks not in _FLAGS:
        raise ValueError(f"stacks is {stacks!r}; there are {', '.join(map(repr, _FLAGS))}")
    check(lib.gpupool_record_start(os.fsencode(path), _FLAGS[stacks]))


def record_stop() -> None:
    """Ends the recording. Raises InvalidArgumentError if there is none. Since 0.2."""
    check(lib.gpupool_record_stop())


def mark(text: str) -> None:
    """Marks a moment in the recording, such as "step 12": 1 to 255 bytes. Does nothing without a recording. Raises
    InvalidArgumentError. Since 0.2."""
    check(lib.gpupool_mark(text_of("text", text)))


check(lib.gpupool_set_stack_fn(lib.gpupool_py_call_stack, ffi.NULL))
