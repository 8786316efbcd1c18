# SPDX-License-Identifier: Apache-2.0
"""Blocks between processes."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ._arguments import address as address_of
from ._handle import Handle
from ._native import ffi, lib
from ._tags import text_of


class ImportedBlock:
    """A block of another process, which both may read and write. It is no block of the pool. Close it when no work
    uses it any more: the last close of a handle waits for all work of the device's context. What is not closed ends
    with the pool. Since 0.2."""

    __slots__ = ("_pool", "address", "size")

    address: int
    size: int

    def __init__(self, pool: Exporting, address: int, size: int) -> None:
        self._pool: Exporting | None = pool
        self.address = address
        self.size = size

    def close(self) -> None:
        """Ends the import; a second time, it does nothing. Raises DriverError: then it is still mapped."""
        if self._pool is not None and not self._pool.is_closed:
            self._pool._call(lib.gpupool_import_close, self.address)
        self._pool = None

    def __enter__(self) -> ImportedBlock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an ImportedBlock is this process's own: send the handle to other processes")


class Exporting(Handle):
    """The part of Pool that shares blocks with other processes. Since 0.2."""

    __slots__ = ()

    def export_block(self, address: int) -> str:
        """Lets other processes of the same user map a block: returns a handle, a line of text that may reach them in
        any way, whatever their language. It is good until the block is freed, or this process ends; processes that
        have imported the block by then keep its memory. While a block is exported, the pool cannot sleep. Only on
        Linux. Raises UnknownPointerError, UnsupportedError, AsleepError, UnavailableError (no more descriptors),
        DriverError. Since 0.2."""
        text = ffi.new("char[]", lib.GPUPOOL_EXPORT_BYTES)
        self._call(lib.gpupool_export, address_of("address", address), text, lib.GPUPOOL_EXPORT_BYTES)
        return str(ffi.string(text).decode())

    def import_block(self, handle: str) -> ImportedBlock:
        """Maps a block that another process has exported, for this pool's device. Use it in a `with`, or close it;
        what is not closed ends with the pool. Raises InvalidArgumentError (no handle, or of another device),
        UnavailableError (the exporter has ended or freed the block, or the system forbids it), UnsupportedError,
        DriverError. Since 0.2."""
        address, size = ffi.new("gpupool_ptr_t *"), ffi.new("uint64_t *")
        self._call(lib.gpupool_import, text_of("handle", handle), address, size)
        return ImportedBlock(self, int(address[0]), int(size[0]))
