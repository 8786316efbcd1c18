# SPDX-License-Identifier: Apache-2.0
"""gpupool beside JAX: see gpupool.frameworks.jax."""

from .frameworks.jax import share

__all__ = ["share"]
