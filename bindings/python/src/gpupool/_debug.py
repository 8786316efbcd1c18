# SPDX-License-Identifier: Apache-2.0
"""Debug modes and what they find: docs/debugging.md."""

from __future__ import annotations

from typing import Literal

from ._arguments import address as address_of
from ._enums import Access
from ._error import check
from ._handle import Handle
from ._library import choose
from ._native import ffi, lib
from ._tags import text_of

AccessName = Literal["write", "read", "none"]


def set_debug(modes: str = "") -> None:
    """Sets the debug modes of pools created from now on: a comma-separated list of "poison", "canary", "fence",
    "fence=SIZE", "guard", "annotate" and "quarantine=SIZE"; "": none. Overrides GPUPOOL_DEBUG in the environment.
    Raises InvalidArgumentError, which names the unknown word. Since 0.2."""
    check(lib.gpupool_set_debug(text_of("modes", modes)))


def why(address: int) -> str:
    """Says what is or was at an address, in any pool of this process: the block, who allocated it, who freed it, and
    its neighbours. Raises HostOutOfMemoryError. Since 0.2."""
    length, room, text = ffi.new("size_t *"), 0, ffi.NULL
    while True:
        check(lib.gpupool_why(address_of("address", address), text, room, length))
        if length[0] < room:
            return str(ffi.string(text).decode(errors="replace"))
        room = length[0] + 1
        text = ffi.new("char[]", room)


class Debugged(Handle):
    """The part of Pool that finds bugs in its users. Since 0.2."""

    __slots__ = ()

    def check(self) -> tuple[int, str]:
        """Checks the bytes behind every live block of a pool in debug mode canary, and waits for the GPU to finish.
        Returns how much damage was found since the pool was created, and a description of the latest. Raises
        DriverError, HostOutOfMemoryError. Since 0.2."""
        count, text = ffi.new("uint64_t *"), ffi.new("char[]", 16384)
        self._call(lib.gpupool_check, count, text, 16384)
        return int(count[0]), ffi.string(text).decode(errors="replace")

    def protect(self, address: int, access: AccessName | Access = "read") -> None:
        """Sets what work may do with a block: with "read", a write to it is a hardware fault, with "none", every access
        is; "write" or freeing the block ends that. Only for blocks that share no chunk. Raises UnknownPointerError,
        UnsupportedError, DriverError, ValueError. Since 0.2."""
        self._call(lib.gpupool_protect, address_of("address", address), choose(Access, access))
