# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch: see gpupool.frameworks.torch."""

from .frameworks.torch import create_mem_pool, install, installed, mem_pool

__all__ = ["create_mem_pool", "install", "installed", "mem_pool"]
