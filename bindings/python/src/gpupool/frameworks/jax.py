# SPDX-License-Identifier: Apache-2.0
"""gpupool beside JAX, which accepts no outside allocator.

gpupool.jax.share(0.5, cap="80%")          # before JAX's first use of the GPU: 40% for JAX, 40% for the pool
array = jax.dlpack.from_dlpack(buffer)     # the pool's memory in JAX, and
memory = gpupool.from_dlpack(array)        # JAX's here; without a copy both ways
"""

from __future__ import annotations

import os
import sys

from ._cap import Cap, apply_cap, parse_cap

_VARIABLES = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")


def share(fraction: float, cap: str | float = 0.9) -> None:
    """Divides cap, a part of each device's memory, between JAX, which gets `fraction` of it, and the default pools.
    JAX takes its whole part when it first uses the GPU, unless XLA_PYTHON_CLIENT_PREALLOCATE=false.

    Raises ValueError for a bad fraction or cap; RuntimeError if JAX has started; OverLimitError if a pool already holds
    more.
    """
    part = parse_cap(cap).fraction
    if not part or not 0 < fraction < 1:
        raise ValueError(
            f"JAX takes a part of the device: a fraction in (0, 1), and a cap such as 80% or 0.8; not {fraction!r} of "
            f"{cap!r}"
        )
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and bridge.backends_are_initialized():
        raise RuntimeError("gpupool.jax.share comes too late: JAX has taken its memory. Call it before JAX is used")
    apply_cap(Cap(fraction=part * (1 - fraction)), "jax")
    # Newer versions also have the second name, and refuse both at once.
    os.environ.pop(_VARIABLES[1], None)
    os.environ[_VARIABLES[0]] = repr(round(part * fraction, 6))
