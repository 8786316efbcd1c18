// SPDX-License-Identifier: Apache-2.0
// A device whose memory comes from the user's callbacks. Streams and events come from another device.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace gpupool::internal {

struct Upstream {
  gpupool_upstream_malloc_fn_t malloc = nullptr;
  gpupool_upstream_free_fn_t free = nullptr;
  void* user = nullptr;
};

std::unique_ptr<Device> make_upstream_device(std::unique_ptr<Device> streams, const Upstream& upstream);

}  // namespace gpupool::internal
