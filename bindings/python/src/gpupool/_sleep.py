# SPDX-License-Identifier: Apache-2.0
"""Sleep and wake: memory goes back to the device, and comes back at the same addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ._arguments import address as address_of
from ._arguments import byte, nanoseconds
from ._arguments import size as size_of
from ._enums import SleepFlag, SleepMode, SleepState
from ._error import check
from ._library import choose
from ._native import ffi, lib
from ._statistics import Watched
from ._structs import SleepResult

SleepModeName = Literal["save", "drop"]


def _options(
    mode: SleepMode | SleepModeName = SleepMode.SAVE,
    flags: int = 0,
    fill: int | None = None,
    timeout: float = 0.0,
    target: int | str | None = None,
) -> Any:
    """What the C functions take."""
    options = ffi.new("gpupool_sleep_options_t *", {"struct_size": ffi.sizeof("gpupool_sleep_options_t")})
    options.mode = choose(SleepMode, mode)
    options.flags = flags
    if fill is not None:
        options.flags |= SleepFlag.FILL
        options.fill = byte("fill", fill)
    options.timeout_ns = nanoseconds("timeout", timeout)
    if target is not None:
        options.target_bytes = size_of("target", target)
        if options.target_bytes == 0:
            raise ValueError(f"target is {target!r}: at least one byte, or None for all")
    return options


def _sleep_options(
    mode: SleepMode | SleepModeName, sync_context: bool, hold_mallocs: bool, target: int | str | None = None
) -> Any:
    flags = SleepFlag.SYNC_CONTEXT if sync_context else 0
    return _options(mode, flags | (SleepFlag.HOLD_MALLOCS if hold_mallocs else 0), target=target)


def _wake_options(timeout: float, fill: int | None, retain_backup: bool) -> Any:
    return _options(flags=SleepFlag.RETAIN_BACKUP if retain_backup else 0, fill=fill, timeout=timeout)


def _result() -> Any:
    return ffi.new("gpupool_sleep_result_t *", {"struct_size": ffi.sizeof("gpupool_sleep_result_t")})


def _tag(tag: str | None) -> Any:
    return ffi.NULL if tag is None else tag.encode()


class Sleeping(Watched):
    """The part of Pool that sleeps and wakes. Since 0.2."""

    __slots__ = ()

    def sleep(
        self,
        mode: SleepMode | SleepModeName = SleepMode.SAVE,
        *,
        sync_context: bool = False,
        hold_mallocs: bool = False,
        target: int | str | None = None,
    ) -> SleepResult:
        """Gives all memory back to the device and keeps the blocks: their addresses stay reserved, and nothing may use
        them until wake. Does nothing to a pool that already sleeps.

        mode: "save" copies the contents of live blocks to the host; "drop" only those of blocks that set_keep names.
        sync_context: changes nothing, as every sleep waits for all work of the CUDA context. hold_mallocs: mallocs wait
        for wake instead of raising AsleepError. target: bytes to give back, such as "6GiB", while the pool stays awake:
        what is cached, and then whole blocks, those without set_keep first if mode is "drop", and the idlest of them
        first. Nothing may use what block_info calls asleep until wake or wake_block. If there is less, all there is
        goes: the result's released_bytes says how much.
        Raises UnavailableError (a stream captures), HostOutOfMemoryError, UnsupportedError (not in vmm mode),
        DriverError, ForkedError: then the pool is awake, and nothing has changed; with a target, blocks that went
        before the failure stay asleep.
        """
        result = _result()
        self._call(lib.gpupool_sleep, _sleep_options(mode, sync_context, hold_mallocs, target), result)
        return SleepResult._of(result)

    def wake(self, timeout: float = 0.0, *, fill: int | None = None, retain_backup: bool = False) -> SleepResult:
        """Maps memory at the same addresses again, with the saved contents. Does nothing to a pool that is awake.

        timeout: seconds to wait for memory that others hold. fill: a byte to fill dropped blocks with. retain_backup:
        keeps the page-locked memory for the next sleep.
        Raises OutOfMemoryError, OverLimitError, DriverError, ForkedError: then the pool sleeps on, whole.
        """
        result = _result()
        self._call(lib.gpupool_wake, _wake_options(timeout, fill, retain_backup), result)
        return SleepResult._of(result)

    def allow_sleep(
        self,
        mode: SleepMode | SleepModeName = SleepMode.SAVE,
        *,
        sync_context: bool = False,
        hold_mallocs: bool = False,
    ) -> None:
        """Lets others that are short have the pool put to sleep, as sleep would, until the next wake: other pools of
        this process, and neighbours of the group. Use none of its memory before that. Wake is cheap if nobody was
        short.

        Raises UnsupportedError (not in vmm mode), ForkedError.
        """
        self._call(lib.gpupool_allow_sleep, _sleep_options(mode, sync_context, hold_mallocs))

    def sleep_block(
        self,
        address: int,
        mode: SleepMode | SleepModeName = SleepMode.SAVE,
        *,
        sync_context: bool = False,
    ) -> SleepResult:
        """Gives back the chunks that lie wholly inside one block. The pool stays awake; mallocs, frees and graphs of
        other blocks go on. Nothing may use the block until wake_block. The result's released_bytes is 0 if no chunk
        lies inside; its pools stays 0.

        Raises as sleep, and UnknownPointerError: then the block is awake, and nothing has changed.
        """
        result = _result()
        options = _sleep_options(mode, sync_context, hold_mallocs=False)
        self._call(lib.gpupool_sleep_block, address_of("address", address), options, result)
        return SleepResult._of(result)

    def wake_block(
        self, address: int, timeout: float = 0.0, *, fill: int | None = None, retain_backup: bool = False
    ) -> SleepResult:
        """Brings back one block, which sleeps alone or with its pool. In a sleeping pool it comes ahead of wake, which
        brings the rest: a program can use the first of many gibibytes while a thread wakes the others. There, until
        wake, mallocs stay refused, graphs must not run, and sleep raises UnavailableError. The result's pools stays 0.

        Raises as wake, and UnknownPointerError: then the block and all others are as before.
        """
        result = _result()
        options = _wake_options(timeout, fill, retain_backup)
        self._call(lib.gpupool_wake_block, address_of("address", address), options, result)
        return SleepResult._of(result)

    @contextmanager
    def asleep(
        self,
        mode: SleepMode | SleepModeName = SleepMode.SAVE,
        *,
        timeout: float = 0.0,
        sync_context: bool = False,
        hold_mallocs: bool = False,
    ) -> Iterator[SleepResult]:
        """The pool sleeps inside the `with` and wakes after it. Yields the sleep's result. Raises as sleep and wake."""
        result = self.sleep(mode, sync_context=sync_context, hold_mallocs=hold_mallocs)
        try:
            yield result
        finally:
            self.wake(timeout)

    @property
    def sleep_state(self) -> SleepState:
        """Whether the pool is awake, asleep or in between."""
        state = ffi.new("gpupool_sleep_state_t *")
        self._call(lib.gpupool_sleep_state, state)
        return SleepState(state[0])

    @property
    def name(self) -> str:
        """The pool's name for gpupool.sleep_tag; "" if it has none. At most 63 bytes."""
        text = ffi.new("char[]", 64)
        self._call(lib.gpupool_name, text, 64, ffi.NULL)
        return str(ffi.string(text).decode(errors="replace"))

    @name.setter
    def name(self, name: str) -> None:
        self._call(lib.gpupool_set_name, name.encode())

    def set_keep(self, address: int, keep: bool = True) -> None:
        """Saves a block even in a sleep that drops. Raises UnknownPointerError."""
        self._call(lib.gpupool_set_keep, address_of("address", address), int(bool(keep)))

    def prepare_backup(self, size: int | str) -> None:
        """Obtains page-locked host memory ahead of the first sleep, and keeps it; 0 gives it back. Raises
        HostOutOfMemoryError, UnsupportedError."""
        self._call(lib.gpupool_prepare_backup, size_of("size", size))

    def backup(self, address: int) -> memoryview:
        """The saved contents of a block while the pool sleeps: a view of the bytes from an address inside it on, up to
        the end of one contiguous piece; for the rest, ask again from there. Read it only until the block is freed or
        the pool woken. Raises UnknownPointerError, UnavailableError (not asleep, or dropped)."""
        data, count = ffi.new("void **"), ffi.new("uint64_t *")
        self._call(lib.gpupool_backup, address_of("address", address), data, count)
        return memoryview(ffi.buffer(data[0], count[0])).toreadonly()

    def read_backup(self, address: int, size: int | str | None = None) -> bytes:
        """A copy of the saved contents of a sleeping block, from an address inside it on: size bytes, or up to the
        block's end. Fails if the block is freed or woken before it is done.

        Raises UnknownPointerError, UnavailableError (some of it is not asleep, or was dropped), InvalidArgumentError
        (the block ends earlier).
        """
        start = address_of("address", address)
        block = self.block_info(address)
        rest = max(block.address + block.requested_bytes - address, 0)
        count = rest if size is None else size_of("size", size)
        # Refused before there is memory for the bytes.
        data = bytearray(min(count, rest))
        self._call(lib.gpupool_read_backup, start, ffi.from_buffer(data), count)
        return bytes(data)


def sleep_tag(
    tag: str | None = None,
    mode: SleepMode | SleepModeName = SleepMode.SAVE,
    *,
    sync_context: bool = False,
    hold_mallocs: bool = False,
    target: int | str | None = None,
) -> SleepResult:
    """Calls Pool.sleep on every pool of this process with that name, None: any name. Either all sleep or none. target:
    bytes to give back from all of them together, those of the lowest priority first, then the idlest. Since 0.2."""
    result = _result()
    check(lib.gpupool_sleep_tag(_tag(tag), _sleep_options(mode, sync_context, hold_mallocs, target), result))
    return SleepResult._of(result)


def wake_tag(
    tag: str | None = None, timeout: float = 0.0, *, fill: int | None = None, retain_backup: bool = False
) -> SleepResult:
    """Calls Pool.wake on every pool of this process with that name, None: any name. Either all wake or none. Since
    0.2."""
    result = _result()
    check(lib.gpupool_wake_tag(_tag(tag), _wake_options(timeout, fill, retain_backup), result))
    return SleepResult._of(result)
