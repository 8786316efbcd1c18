# SPDX-License-Identifier: Apache-2.0
"""JAX, which takes the part of the device that gpupool.jax.share leaves it."""

import steps

steps.use()
import gpupool.jax

gpupool.jax.share(0.5, cap="80%")
import jax as library
from jaxlib import xla_client

options = xla_client.generate_pjrt_gpu_plugin_options()
assert options["memory_fraction"] == 0.4, options
pool = gpupool.default_pool(0)
assert pool.stats().limit_bytes == int(pool.device_info().total_bytes * 0.4)
assert float(library.numpy.ones(3).sum()) == 3
try:
    gpupool.jax.share(0.5)
    raise AssertionError("JAX has started")
except RuntimeError as error:
    assert "too late" in str(error)
steps.came(steps.RAN)
