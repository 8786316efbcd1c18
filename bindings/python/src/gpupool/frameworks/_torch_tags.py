# SPDX-License-Identifier: Apache-2.0
"""Tags: torch.cuda.MemPools whose memory sleeps and wakes together.

Each tag has its own pool on each device, a child of the default pool (gpupool_torch_tag in gpupool/torch.h). PyTorch's
cache sits above it: a block of that pool is a segment of PyTorch's.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .._enums import SleepMode, SleepState
from .._error import check
from .._native import ffi, lib
from .._sleep import _result, _sleep_options, _wake_options
from .._status_errors import InvalidArgumentError, UnavailableError
from .._structs import SleepResult
from . import _torch_cache, _torch_shim

Hook = Callable[[], object]

DEFAULT_TAG = "default"


class _State:
    """What this process has created."""

    library: Any = None
    allocators: dict[tuple[str, bool], Any] = {}
    mem_pools: dict[tuple[Any, ...], Any] = {}
    hooks: dict[str, list[tuple[Hook, Hook]]] = {}


class Sleepers:
    """The pools of some tags, which all sleep and wake or not at all."""

    def __init__(self, tags: Iterable[str] | None = None) -> None:
        """None: all tags."""
        names = known_tags() if tags is None else [tag for tag in known_tags() if tag in set(tags)]
        self.pools = [(tag, pool) for tag in names for pool in pools_of(tag)]

    def in_state(self, state: SleepState) -> list[tuple[str, Any]]:
        """The pools that exist now."""
        return [(tag, pool) for tag, pool in self.pools if state_of(pool) == state]

    def sleep(self, saved_tags: Iterable[str] = ()) -> SleepResult:
        """Gives all their memory back. Saves the bytes of saved_tags, and of memory allocated to be kept."""
        saved = set(saved_tags)
        awake = self.in_state(SleepState.AWAKE)
        tags = {tag for tag, _ in awake}
        results = []
        with ExitStack() as undo:
            undo.callback(run_hooks, tags, 1)
            run_hooks(tags, 0)
            for tag, pool in awake:
                with _idle_segments_dropped(tag, pool):
                    result = _result()
                    mode = SleepMode.SAVE if tag in saved else SleepMode.DROP
                    # Engines use streams that no pool has seen.
                    check(lib.gpupool_sleep(pool, _sleep_options(mode, sync_context=True, hold_mallocs=False), result))
                    results.append(SleepResult._of(result))
                undo.callback(lib.gpupool_wake, pool, ffi.NULL, ffi.NULL)
            undo.pop_all()
        return _sum(results)

    def wake(self, *, timeout: float = 0.0, fill: int | None = None, retain_backup: bool = False) -> SleepResult:
        """Maps all their memory again, with the saved contents."""
        asleep = self.in_state(SleepState.ASLEEP)
        results = []
        with ExitStack() as undo:
            for _, pool in asleep:
                result = _result()
                check(lib.gpupool_wake(pool, _wake_options(timeout, fill, retain_backup), result))
                results.append(SleepResult._of(result))
                undo.callback(lib.gpupool_sleep, pool, ffi.NULL, ffi.NULL)
            undo.pop_all()
        # Including those of tags that are awake: a hook may have failed before.
        run_hooks({tag for tag, _ in self.pools}, 1)
        return _sum(results)


def functions(tag: str, keep: bool) -> tuple[int, int]:
    """The addresses of the functions of a tag's allocator. keep: even a sleep that drops saves what they allocate."""
    alloc, free = ctypes.c_void_p(), ctypes.c_void_p()
    status = _library().gpupool_torch_tag(tag.encode(), int(keep), ctypes.byref(alloc), ctypes.byref(free))
    if status == InvalidArgumentError.status:
        raise ValueError(f"a tag is 1 to 63 bytes long, not {tag!r}")
    if status == UnavailableError.status:
        raise RuntimeError(f"{tag!r} would be this process's 65th tag; the maximum is 64")
    if status != 0:
        raise MemoryError("the host has no memory for the records of a tag")
    return alloc.value or 0, free.value or 0


def allocator(tag: str, *, keep: bool = False) -> Any:
    """An allocator for torch.cuda.MemPool, whose memory belongs to the tag:
    torch.cuda.MemPool(allocator("kv_cache"))."""
    key = (tag, bool(keep))
    if key not in _State.allocators:
        torch = import_torch()
        _State.allocators[key] = torch._C._cuda_customAllocator(*functions(*key))
    return _State.allocators[key]


def mem_pool(tag: str, *, keep: bool = False, device: int | None = None, group: object = None) -> Any:
    """The torch.cuda.MemPool of a tag on a device, by default the current one; always the same one. group: equal values
    share a MemPool of their own."""
    torch = import_torch()
    index = torch.cuda.current_device() if device is None else device
    key = (tag, bool(keep), index, group)
    if key not in _State.mem_pools:
        _State.mem_pools[key] = torch.cuda.MemPool(allocator(tag, keep=keep))
    return _State.mem_pools[key]


def register_tag_hooks(tag: str, before_unmap: Hook, after_map: Hook) -> None:
    """Registers before_unmap, called before a tag's memory goes, and after_map, called once it is back, to end and
    renew its registrations for a network or for NCCL. after_map must be safe to call twice: if it raises, the memory is
    there, and the next wake of the tag calls it again."""
    _State.hooks.setdefault(tag, []).append((before_unmap, after_map))


def run_hooks(tags: set[str], which: int) -> None:
    for tag in sorted(tags & _State.hooks.keys()):
        for pair in _State.hooks[tag]:
            pair[which]()


def known_tags() -> list[str]:
    """The tags that this process has created, oldest first."""
    return list(dict.fromkeys(tag for tag, _ in _State.allocators))


def pools_of(tag: str) -> list[Any]:
    """A tag's pools, on all devices."""
    library, name = _library(), tag.encode()
    count = library.gpupool_torch_tag_pools(name, None, 0)
    found = (ctypes.c_void_p * count)()
    count = min(count, library.gpupool_torch_tag_pools(name, found, count))
    return [ffi.cast("gpupool_t *", found[i]) for i in range(count)]


def state_of(pool: Any) -> SleepState:
    state = ffi.new("gpupool_sleep_state_t *")
    check(lib.gpupool_sleep_state(pool, state))
    return SleepState(state[0])


def allocated_bytes(tags: Iterable[str] | None = None) -> int:
    """How much of the tags' memory PyTorch holds, asleep or not."""
    total = 0
    for tag in known_tags() if tags is None else tags:
        for pool in pools_of(tag):
            stats = ffi.new("gpupool_stats_t *", {"struct_size": ffi.sizeof("gpupool_stats_t")})
            check(lib.gpupool_stats(pool, stats))
            total += stats.all.allocated_bytes.current
    return total


def set_margin(size: int) -> None:
    """From now on, no tag's allocation leaves less than this free on its device."""
    _library().gpupool_torch_tag_margin(size)


def import_torch() -> Any:
    """PyTorch, if its MemPools can have allocators of their own."""
    torch = importlib.import_module("torch")
    backend = torch.cuda.get_allocator_backend()
    if backend == "pluggable":
        raise RuntimeError(
            "PyTorch's current allocator is a pluggable one, whose MemPools cannot have allocators of their own; "
            "gpupool.torch.sleep works with PyTorch's own allocator, and with gpupool's shim"
        )
    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") + "," + os.environ.get("PYTORCH_ALLOC_CONF", "")
    if "expandable_segments:True" in settings.replace(" ", "") and backend == "native":
        raise RuntimeError(
            "PyTorch's own allocator with expandable_segments:True allows a MemPool no allocator of its own: remove it "
            'from PYTORCH_CUDA_ALLOC_CONF, or call gpupool.install("torch") first, which needs no such setting'
        )
    return torch


@contextmanager
def _idle_segments_dropped(tag: str, pool: Any) -> Iterator[None]:
    """Inside the `with`, segments that PyTorch caches without a tensor in them are not saved."""
    segments = [segment for mem_pool in _mem_pools(tag) for segment in mem_pool.snapshot()]
    addresses = [segment["address"] for segment in segments if segment["active_size"] == 0]
    dropped = [address for address in addresses if lib.gpupool_set_keep(pool, address, 0) == 0]
    try:
        yield
    finally:
        for address in dropped:
            lib.gpupool_set_keep(pool, address, 1)


def _mem_pools(tag: str) -> list[Any]:
    """The pools whose memory a sleep keeps."""
    return [pool for (name, keep, *_), pool in _State.mem_pools.items() if name == tag and keep]


def _sum(results: list[SleepResult]) -> SleepResult:
    total = _result()
    for name in SleepResult.__slots__:
        setattr(total, name, sum(getattr(result, name) for result in results))
    return SleepResult._of(total)


def _library() -> Any:
    if _State.library is None:
        try:
            library = ctypes.CDLL(str(_torch_shim.torch_library_path()))
        except _torch_cache.ShimError as error:
            raise RuntimeError(f"gpupool.torch.sleep: {error}") from error
        library.gpupool_torch_tag_pools.restype = ctypes.c_size_t
        library.gpupool_torch_tag_margin.argtypes = [ctypes.c_uint64]
        _State.library = library
    return _State.library
