# SPDX-License-Identifier: Apache-2.0
"""cuda.core's buffers over a pool. From 1.0 on, they need a driver."""

import steps

steps.use()
from gpupool.frameworks import cuda_core as ours

core = ours._core
ours.check()
resource = ours.MemoryResource(0)
assert isinstance(resource, core.MemoryResource)
assert isinstance(core.Device.memory_resource, property) or hasattr(core.Device.memory_resource, "__set__")
assert callable(core.DeviceMemoryResource)
try:
    buffer = resource.allocate(1000)
except Exception as error:  # cuda.pathfinder's own kind
    assert "driver" in str(error), error
    steps.came(steps.IMPORTED, error)
else:
    assert steps.held() == 1024 and buffer.size == 1000
    buffer.close()
    assert steps.held() == 0
    steps.came(steps.RAN)
