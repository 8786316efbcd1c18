# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory, sleeping by tag: torch_memory_saver's calls on gpupool's pools.

    from gpupool.torch import sleep

    with sleep.region("weights", enable_cpu_backup=True):
        model = build()                  # these tensors sleep, and their bytes are kept
    with sleep.region("kv_cache"):
        cache = torch.empty(...)         # these sleep, and their bytes are lost
    sleep.pause()                        # the device has the memory; the tensors keep their addresses
    sleep.resume("weights")

gpupool.install("torch_memory_saver") puts these in place of torch_memory_saver's own. docs/sleep.md lists the
differences.
"""

from typing import Final

from ..frameworks._torch_saver import configure_subprocess, torch_memory_saver
from ..frameworks._torch_tags import allocator, mem_pool, register_tag_hooks

region: Final = torch_memory_saver.region
cuda_graph: Final = torch_memory_saver.cuda_graph
disable: Final = torch_memory_saver.disable
pause: Final = torch_memory_saver.pause
resume: Final = torch_memory_saver.resume
get_cpu_backup: Final = torch_memory_saver.get_cpu_backup

__all__ = [
    "allocator",
    "configure_subprocess",
    "cuda_graph",
    "disable",
    "get_cpu_backup",
    "mem_pool",
    "pause",
    "region",
    "register_tag_hooks",
    "resume",
    "torch_memory_saver",
]
