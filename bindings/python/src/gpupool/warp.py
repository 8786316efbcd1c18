# SPDX-License-Identifier: Apache-2.0
"""gpupool in Warp: see gpupool.frameworks.warp."""

from .frameworks.warp import Allocator

__all__ = ["Allocator"]
