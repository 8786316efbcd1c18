# SPDX-License-Identifier: Apache-2.0
"""The interface of torch_memory_saver, over tags.

Where torch_memory_saver ends the process, this raises an exception and leaves memory as it was; pausing what is paused,
or resuming what is not, does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from .._error import check
from .._native import ffi, lib
from .._structs import SleepResult
from ._torch_tags import DEFAULT_TAG, Sleepers, allocator, import_torch, known_tags, mem_pool, pools_of, set_margin

_HOOK_MODES = ("preload", "torch")


class TorchMemorySaver:
    """torch_memory_saver.torch_memory_saver, on gpupool's pools."""

    retain_cpu_backup: bool = False
    """Whether resume keeps the page-locked memory for the next pause: obtaining it is the slow part of a pause."""

    enabled: bool = True

    def __init__(self) -> None:
        self._hook_mode = "torch"
        self._margin = 0
        self._graph_pools: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @contextmanager
    def region(
        self,
        tag: str = DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Inside the `with`, memory that this thread allocates on the current device belongs to a tag.
        enable_cpu_backup: pause saves it, and resume restores it; otherwise its bytes are lost.

        Raises ValueError for a bad tag and for backups that gpupool does not offer: on disk, and in memory that is not
        page-locked; RuntimeError if PyTorch's allocator cannot serve a tag.
        """
        _check_backup(enable_disk_backup, cpu_backup_backend)
        torch = import_torch()
        with torch.cuda.use_mem_pool(mem_pool(tag, keep=enable_cpu_backup)):
            yield

    @contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """torch.cuda.graph with memory that belongs to a tag. pool: graphs that name the same pool share memory. The
        graph may be replayed whenever its tag is not paused. Raises ValueError as region."""
        _check_backup(False, cpu_backup_backend)
        torch = import_torch()
        if pool is not None:
            memory = mem_pool(tag, keep=enable_cpu_backup, group=pool)
        else:
            memory = self._graph_pools[cuda_graph] = torch.cuda.MemPool(allocator(tag, keep=enable_cpu_backup))
        with torch.cuda.graph(cuda_graph, pool=memory.id, stream=stream, capture_error_mode=capture_error_mode):
            yield

    @contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """Inside this `with`, within a region, allocated memory belongs to no tag."""
        if not dispose_mem_pool_after_use:
            raise ValueError("neither torch_memory_saver nor gpupool supports dispose_mem_pool_after_use=False")
        torch = import_torch()
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            yield

    def pause(self, tag: str | None = None) -> SleepResult:
        """Gives the memory of a tag, None: of all tags, back to the device, all of it or none. The tensors keep their
        addresses, and nothing may use them until resume. Waits for all work on the device. A tag that is paused or
        unused is left alone.

        Raises as Pool.sleep: then nothing has changed.
        """
        return Sleepers(None if tag is None else [tag]).sleep()

    def resume(self, tag: str | None = None, timeout: float = 0.0) -> SleepResult:
        """Maps the memory of a tag, None: of all tags, at the same addresses again, with the saved contents. timeout:
        seconds to wait for memory that others hold. Raises as Pool.wake: then everything that was paused stays
        paused."""
        tags = None if tag is None else [tag]
        return Sleepers(tags).wake(timeout=timeout, retain_backup=self.retain_cpu_backup)

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any:
        """The saved contents of a paused tensor, as a CPU tensor. zero_copy: a view of the saved bytes themselves,
        which must not be used after resume, or once the tensor is gone.

        Raises ValueError for a tensor that has no tag, is not contiguous, or has its saved bytes in several pieces with
        zero_copy; UnavailableError if it is not paused or was not saved.
        """
        if not x.is_contiguous():
            raise ValueError("the tensor is not contiguous: its bytes are not in one place")
        torch = import_torch()
        size = x.numel() * x.element_size()
        pieces = _saved_pieces(x.data_ptr(), size)
        if len(pieces) == 1:
            view = torch.frombuffer(pieces[0], dtype=x.dtype, count=x.numel()).view(x.shape)
            return view if zero_copy else view.clone()
        if zero_copy:
            raise ValueError(f"the saved bytes are in {len(pieces)} pieces, and cannot be one view: take a copy")
        return torch.frombuffer(bytearray(b"".join(pieces)), dtype=x.dtype, count=x.numel()).view(x.shape)

    @property
    def hook_mode(self) -> str:
        """ "preload" or "torch", as it was set. gpupool has one mode, which serves both."""
        return self._hook_mode

    @hook_mode.setter
    def hook_mode(self, mode: str) -> None:
        if mode not in _HOOK_MODES:
            raise ValueError(f'hook_mode is {mode!r}, not "preload" or "torch"')
        self._hook_mode = mode

    @property
    def memory_margin_bytes(self) -> int:
        """How much of the device the tags' allocations leave free; 0: they may take all."""
        return self._margin

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, size: int) -> None:
        if not 0 <= size < 1 << 63:
            raise ValueError(f"memory_margin_bytes is {size}, not 0 to 2^63 - 1")
        set_margin(size)
        self._margin = size

    def set_disk_backup_dir(self, path: Any) -> None:
        """Raises ValueError: gpupool has no backups on disk."""
        raise ValueError(f"gpupool keeps no backups on disk, in {path} or elsewhere")


@contextmanager
def configure_subprocess() -> Iterator[None]:
    """Python programs started inside this `with` find gpupool in place of torch_memory_saver."""
    before = os.environ.get("GPUPOOL_INSTALL")
    names = [name for name in (before or "").split(",") if name.strip()]
    if "torch_memory_saver" not in (name.strip() for name in names):
        names.append("torch_memory_saver")
    os.environ["GPUPOOL_INSTALL"] = ",".join(names)
    try:
        yield
    finally:
        if before is None:
            del os.environ["GPUPOOL_INSTALL"]
        else:
            os.environ["GPUPOOL_INSTALL"] = before


def _check_backup(on_disk: bool, backend: str | None) -> None:
    if on_disk:
        raise ValueError("enable_disk_backup: gpupool keeps no backups on disk")
    if backend not in (None, "pinned"):
        raise ValueError(f'cpu_backup_backend is {backend!r}: gpupool keeps backups in "pinned" memory only')


def _saved_pieces(address: int, size: int) -> list[Any]:
    """The saved contents of these bytes, as buffers."""
    block = ffi.new("gpupool_block_t *")
    for pool in [pool for tag in known_tags() for pool in pools_of(tag)]:
        if lib.gpupool_block_info(pool, address, block, ffi.sizeof("gpupool_block_t")) == 0:
            break
    else:
        raise ValueError(f"0x{address:x} is in no tag's memory")
    pieces: list[Any] = []
    at, end = address, address + size
    while at < end:
        data, count = ffi.new("void **"), ffi.new("uint64_t *")
        check(lib.gpupool_backup(pool, at, data, count))
        part = min(count[0], end - at)
        pieces.append(ffi.buffer(data[0], part))
        at += part
    return pieces


torch_memory_saver: TorchMemorySaver = TorchMemorySaver()
