// SPDX-License-Identifier: Apache-2.0
#include "os/pages.hpp"

namespace gpupool::internal::os {

void* map_pages(size_t) noexcept {
  return nullptr;
}

void unmap_pages(void*, size_t) noexcept {}

}  // namespace gpupool::internal::os
