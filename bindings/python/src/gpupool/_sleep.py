# SPDX-License-Identifier: Apache-2.0
"""Sleep and wake: memory that goes back to the device and comes back to the same addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ._arguments import address as address_of
from ._arguments import byte, real
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
) -> Any:
    """What the C functions take."""
    options = ffi.new("gpupool_sleep_options_t *", {"struct_size": ffi.sizeof("gpupool_sleep_options_t")})
    options.mode = choose(SleepMode, mode)
    options.flags = flags
    if fill is not None:
        options.flags |= SleepFlag.FILL
        options.fill = byte("fill", fill)
    seconds = real("timeout", timeout)
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"timeout is {timeout}, not 0 to 1e9 seconds")
    options.timeout_ns = int(seconds * 1e9)
    return options


def _sleep_options(mode: SleepMode | SleepModeName, sync_context: bool, hold_mallocs: bool) -> Any:
    flags = SleepFlag.SYNC_CONTEXT if sync_context else 0
    return _options(mode, flags | (SleepFlag.HOLD_MALLOCS if hold_mallocs else 0))


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
    ) -> SleepResult:
        """Gives all memory back to the device and keeps the blocks: their addresses stay theirs, and nothing may use
        them until wake. A pool that sleeps already is left as it is.

        mode: "save" copies what is in live blocks to the host; "drop" only what set_keep names.
        sync_context: waits for all work of the CUDA context, not only for streams that the pool has seen.
        hold_mallocs: mallocs wait for wake instead of raising AsleepError.
        Raises UnavailableError (a stream captures), HostOutOfMemoryError, UnsupportedError (not in vmm mode),
        DriverError, ForkedError: then the pool is awake, and nothing has changed.
        """
        result = _result()
        self._call(lib.gpupool_sleep, _sleep_options(mode, sync_context, hold_mallocs), result)
        return SleepResult._of(result)

    def wake(self, timeout: float = 0.0, *, fill: int | None = None, retain_backup: bool = False) -> SleepResult:
        """Maps memory at the same addresses again, with what was saved. A pool that is awake is left as it is.

        timeout: seconds to wait for memory that others hold. fill: a byte for blocks that were dropped.
        retain_backup: keeps the page-locked memory for the next sleep.
        Raises OutOfMemoryError, OverLimitError, DriverError, ForkedError: then the pool sleeps on, whole.
        """
        result = _result()
        self._call(lib.gpupool_wake, _wake_options(timeout, fill, retain_backup), result)
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
        """Sleeps within it, and is awake behind it. Gives what the sleep came to. Raises as sleep and wake."""
        result = self.sleep(mode, sync_context=sync_context, hold_mallocs=hold_mallocs)
        try:
            yield result
        finally:
            self.wake(timeout)

    @property
    def sleep_state(self) -> SleepState:
        """Where the pool stands."""
        state = ffi.new("gpupool_sleep_state_t *")
        self._call(lib.gpupool_sleep_state, state)
        return SleepState(state[0])

    @property
    def name(self) -> str:
        """What gpupool.sleep_tag calls it; "" without one. At most 63 bytes."""
        text = ffi.new("char[]", 64)
        self._call(lib.gpupool_name, text, 64, ffi.NULL)
        return str(ffi.string(text).decode(errors="replace"))

    @name.setter
    def name(self, name: str) -> None:
        self._call(lib.gpupool_set_name, name.encode())

    def set_keep(self, address: int, keep: bool = True) -> None:
        """Has a block saved even by a sleep that drops. Raises UnknownPointerError."""
        self._call(lib.gpupool_set_keep, address_of("address", address), int(bool(keep)))

    def prepare_backup(self, size: int | str) -> None:
        """Gets page-locked memory of the host ahead of the first sleep, and keeps it; 0 gives it back. Raises
        HostOutOfMemoryError, UnsupportedError."""
        self._call(lib.gpupool_prepare_backup, size_of("size", size))

    def backup(self, address: int) -> memoryview:
        """What was saved of a block while the pool sleeps: a view of the bytes from an address inside it on, as far as
        they lie in one piece; for the rest, ask again behind it. It may be read until the block is freed or the pool
        woken, and not after. Raises UnknownPointerError, UnavailableError (not asleep, or dropped)."""
        data, count = ffi.new("void **"), ffi.new("uint64_t *")
        self._call(lib.gpupool_backup, address_of("address", address), data, count)
        return memoryview(ffi.buffer(data[0], count[0])).toreadonly()


def sleep_tag(
    tag: str | None = None,
    mode: SleepMode | SleepModeName = SleepMode.SAVE,
    *,
    sync_context: bool = False,
    hold_mallocs: bool = False,
) -> SleepResult:
    """Pool.sleep of every pool of this process with that name, None: with any. All of them, or none. Since 0.2."""
    result = _result()
    check(lib.gpupool_sleep_tag(_tag(tag), _sleep_options(mode, sync_context, hold_mallocs), result))
    return SleepResult._of(result)


def wake_tag(
    tag: str | None = None, timeout: float = 0.0, *, fill: int | None = None, retain_backup: bool = False
) -> SleepResult:
    """Pool.wake of every pool of this process with that name, None: with any. All of them, or none. Since 0.2."""
    result = _result()
    check(lib.gpupool_wake_tag(_tag(tag), _wake_options(timeout, fill, retain_backup), result))
    return SleepResult._of(result)
