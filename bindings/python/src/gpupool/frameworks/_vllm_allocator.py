# SPDX-License-Identifier: Apache-2.0
"""vLLM's MemAllocator protocol over tags: what its sleep mode needs from vllm.device_allocator.

Behind /sleep and /wake_up there, level 2 is sleep(offload_tags=KEPT), and level 1 saves the weights too.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._torch_tags import (
    DEFAULT_TAG,
    Sleepers,
    allocated_bytes,
    import_torch,
    known_tags,
    mem_pool,
    register_tag_hooks,
)

KEPT = ("runtime", "cudagraph")
"""Tags whose bytes vLLM needs after every sleep, since 0.32: buffers of its own, and the memory of CUDA graphs."""

_DEFERRABLE = ("weights", "kv_cache")
"""Tags that stay asleep when others wake. Every wake brings back all other tags."""

_POISON = 0xFF


class GpupoolAllocator:
    """The process has one: allocator_instance()."""

    default_tag = DEFAULT_TAG

    @contextmanager
    def use_memory_pool(self, tag: str | None = None) -> Iterator[None]:
        """Inside the `with`, memory that this thread allocates on the current device belongs to a tag."""
        torch = import_torch()
        with torch.cuda.use_mem_pool(mem_pool(DEFAULT_TAG if tag is None else tag)):
            yield

    @contextmanager
    def cudagraph_pool(self) -> Iterator[Any]:
        """For the `with`, the id of the MemPool that this device's graphs are captured into. Its memory belongs to the
        tag cudagraph."""
        yield mem_pool(KEPT[1]).id

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> None:
        """Puts all tags to sleep. Saves the bytes of offload_tags, None: of the default tag; all others are lost.
        Raises as Pool.sleep: then everything is awake."""
        saved = (DEFAULT_TAG,) if offload_tags is None else _tuple(offload_tags)
        # Otherwise garbage that Python still holds would be saved.
        gc.collect()
        Sleepers().sleep(saved)

    def discard(self, tags: tuple[str, ...] | str) -> None:
        """Puts these tags to sleep and drops their bytes; others stay as they are."""
        Sleepers(_tuple(tags)).sleep()

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Wakes tags, None: all. Tags other than weights and kv_cache wake with any of them. Raises as Pool.wake: then
        everything stays asleep, and the next call may succeed."""
        wanted = None if tags is None else [tag for tag in known_tags() if tag in tags or tag not in _DEFERRABLE]
        Sleepers(wanted).wake(
            fill=_POISON if _is_set("VLLM_POISON_DISCARDED_PAGES") else None,
            retain_backup=not _is_set("VLLM_SLEEP_MODE_RELEASE_HOST_MEMORY"),
        )

    def get_current_usage(self) -> int:
        """Bytes of PyTorch's segments in all tags, asleep or not."""
        return allocated_bytes()

    def register_tag_hooks(self, tag: str, before_unmap: Callable[[], object], after_map: Callable[[], object]) -> None:
        """See gpupool.torch.sleep.register_tag_hooks."""
        register_tag_hooks(tag, before_unmap, after_map)


_INSTANCE = GpupoolAllocator()


def allocator_instance() -> GpupoolAllocator:
    """Replaces vllm.device_allocator.get_mem_allocator_instance."""
    return _INSTANCE


def _tuple(tags: tuple[str, ...] | str) -> tuple[str, ...]:
    return (tags,) if isinstance(tags, str) else tuple(tags)


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true")
