// SPDX-License-Identifier: Apache-2.0
#include "device/host/host.hpp"

namespace gpupool::internal {

Status count_hosts(int32_t&) {
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the host's memory is a device on Linux only");
}

Status open_host(int32_t, std::span<const int32_t>, std::unique_ptr<Device>&) {
  int32_t count = 0;
  return count_hosts(count);
}

}  // namespace gpupool::internal
