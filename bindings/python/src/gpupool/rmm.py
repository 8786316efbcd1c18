# SPDX-License-Identifier: Apache-2.0
"""gpupool in RMM: see gpupool.frameworks.rmm."""

from .frameworks.rmm import resource

__all__ = ["resource"]
