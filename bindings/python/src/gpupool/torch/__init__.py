# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch: see gpupool.frameworks.torch; gpupool.torch.sleep provides memory that sleeps by tag."""

from ..frameworks.torch import create_mem_pool, install, installed, mem_pool
from . import sleep

__all__ = ["create_mem_pool", "install", "installed", "mem_pool", "sleep"]
