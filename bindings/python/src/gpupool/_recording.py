# SPDX-License-Identifier: Apache-2.0
"""Tags, samples and recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ._enums import RecordFlag
from ._error import check
from ._native import ffi, lib

Stacks = Literal["none", "native", "language", "all"]

_FLAGS: dict[str, int] = {
    "none": 0,
    "native": RecordFlag.NATIVE_STACKS,
    "language": RecordFlag.LANGUAGE_STACKS,
    "all": RecordFlag.NATIVE_STACKS | RecordFlag.LANGUAGE_STACKS,
}


def _text(name: str, text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{name} is {text!r}, not a string")
    if "\0" in text:
        raise ValueError(f"{name} is {text!r}, with a zero inside")
    return text.encode(errors="surrogateescape")


@contextmanager
def tag(name: str) -> Iterator[None]:
    """What this thread allocates within carries the name, of 1 to 63 bytes, in reports and recordings:

        with gpupool.tag("kv cache"):
            cache = pool.alloc(1 << 30)

    Tags nest; the innermost counts. Also a decorator. Raises InvalidArgumentError. Since 0.2."""
    check(lib.gpupool_tag_push(_text("name", name)))
    try:
        yield
    finally:
        lib.gpupool_tag_pop()


def set_sampling(size: int) -> None:
    """Sets how densely allocations of all pools are sampled: the least mean distance of samples in bytes; 0: none from
    now on. Since 0.2."""
    check(lib.gpupool_set_sampling(size))


def record_start(path: str | os.PathLike[str], stacks: Stacks = "language") -> None:
    """Records every allocation and free of all pools of this process to a new file, which the gpupool command reads;
    "%p" in the path becomes the process's number. stacks: what is noted of where an allocation comes from;
    "language" is Python's frames. Raises InvalidArgumentError (also where something is at the path, or a recording is
    under way), ValueError. Since 0.2."""
    if stacks not in _FLAGS:
        raise ValueError(f"stacks is {stacks!r}; there are {', '.join(map(repr, _FLAGS))}")
    check(lib.gpupool_record_start(os.fsencode(path), _FLAGS[stacks]))


def record_stop() -> None:
    """Ends the recording. Raises InvalidArgumentError where there is none. Since 0.2."""
    check(lib.gpupool_record_stop())


def mark(text: str) -> None:
    """Notes a moment in the recording, such as "step 12": 1 to 255 bytes. Without a recording it does nothing. Raises
    InvalidArgumentError. Since 0.2."""
    check(lib.gpupool_mark(_text("text", text)))


check(lib.gpupool_set_stack_fn(lib.gpupool_py_call_stack, ffi.NULL))
