# SPDX-License-Identifier: Apache-2.0
"""Groups of processes that share a device's memory, seen from outside. A pool joins one with Pool(share="team")."""

from __future__ import annotations

from typing import Any, Literal

from ._arguments import device_and_backend, integer
from ._arguments import size as size_of
from ._enums import Backend, ShareFigure
from ._error import check
from ._library import BackendName, choose
from ._native import ffi, lib
from ._record import Record
from ._structs import Share, ShareMember

FigureName = Literal["limit", "member_limit", "member_guarantee", "member_priority"]


class ShareGroup(Record):
    """A group and its members at one moment, by number."""

    __slots__ = ("members", "share")

    share: Share
    members: tuple[ShareMember, ...]


def _group(share: str | None) -> Any:
    return ffi.NULL if share is None else ffi.new("char[]", share.encode())


def share_info(
    share: str | None = None, device: int | str = 0, backend: Backend | BackendName = Backend.AUTO
) -> ShareGroup:
    """Describes a group of a device; None: the one that GPUPOOL_SHARE names. The caller need not be a member. Raises
    UnavailableError (there is no such group), InvalidArgumentError. Since 0.2."""
    number, chosen = device_and_backend(device, choose(Backend, backend))
    name, info = _group(share), ffi.new("gpupool_share_t *", {"struct_size": ffi.sizeof("gpupool_share_t")})
    count, room, members = ffi.new("size_t *"), 0, ffi.NULL
    while True:
        size = ffi.sizeof("gpupool_share_member_t")
        check(lib.gpupool_share_info(name, chosen, number, info, members, size, room, count))
        if count[0] <= room:
            found = tuple(ShareMember._of(members[i]) for i in range(count[0]))
            return ShareGroup(share=Share._of(info), members=found)
        room = count[0]
        members = ffi.new("gpupool_share_member_t[]", room)


def share_set(
    what: ShareFigure | FigureName,
    value: int | str,
    member: int = 0,
    share: str | None = None,
    device: int | str = 0,
    backend: Backend | BackendName = Backend.AUTO,
) -> None:
    """Sets a group's limit, or a member's limit, guarantee or priority; `member` is its slot. Raises
    InvalidArgumentError (no such member), OverLimitError, UnavailableError. Since 0.2."""
    number, chosen = device_and_backend(device, choose(Backend, backend))
    figure = choose(ShareFigure, what.upper() if isinstance(what, str) else what)
    given = integer("value", value, -(2**63), 2**63 - 1) if not isinstance(value, str) else size_of("value", value)
    slot = integer("member", member, 0, 2**32 - 1)
    check(lib.gpupool_share_set(_group(share), chosen, number, figure, slot, given))


def share_repair(share: str | None = None, device: int | str = 0, backend: Backend | BackendName = Backend.AUTO) -> int:
    """Recovers what dead members left behind, and corrects the used bytes. Returns by how much they were too high.
    Raises UnavailableError. Since 0.2."""
    number, chosen = device_and_backend(device, choose(Backend, backend))
    off = ffi.new("int64_t *")
    check(lib.gpupool_share_repair(_group(share), chosen, number, off))
    return int(off[0])
