# SPDX-License-Identifier: Apache-2.0
"""gpupool behind vLLM's sleep mode: see gpupool.frameworks.vllm."""

from .frameworks._vllm_allocator import GpupoolAllocator, allocator_instance
from .frameworks.vllm import register

__all__ = ["GpupoolAllocator", "allocator_instance", "register"]
