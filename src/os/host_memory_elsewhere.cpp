// SPDX-License-Identifier: Apache-2.0
#include "os/host_memory.hpp"

namespace gpupool::internal::os {

bool read_host_memory(HostMemory&, const char*) noexcept {
  return false;
}

}  // namespace gpupool::internal::os
