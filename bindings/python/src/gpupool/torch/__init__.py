# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch: see gpupool.frameworks.torch; gpupool.torch.sleep provides memory that sleeps by tag, tag_modules
names what a model's modules allocate."""

from ..frameworks.torch import create_mem_pool, install, installed, mem_pool
from . import sleep
from ._tags import ModuleTags, tag_modules

__all__ = ["ModuleTags", "create_mem_pool", "install", "installed", "mem_pool", "sleep", "tag_modules"]
