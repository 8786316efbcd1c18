# SPDX-License-Identifier: Apache-2.0
"""RMM's buffers over a pool."""

import steps

steps.use()
import gpupool
import rmm as library
from gpupool.frameworks import rmm as ours

ours.check()
assert callable(library.mr.get_per_device_resource) and callable(library.mr.set_per_device_resource)
resource = ours.resource(0)
assert type(resource).__name__ == "CallbackMemoryResource"
address = resource.allocate(1000)
assert gpupool.default_pool(0).block_info(address).requested_bytes >= 1000
resource.deallocate(address, 1000)
buffer = library.DeviceBuffer(size=1000, mr=resource)
assert gpupool.default_pool(0).block_info(buffer.ptr).stream == 0
del buffer
assert steps.held() == 0
try:
    resource.allocate(1 << 50)
    raise AssertionError("the device is smaller")
except MemoryError as error:
    assert "gpupool" in str(error) or "bytes" in str(error), error
steps.came(steps.RAN)
