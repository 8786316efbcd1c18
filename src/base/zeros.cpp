// SPDX-License-Identifier: Apache-2.0
#include "base/zeros.hpp"

#include <cstdlib>

#include "os/pages.hpp"

namespace gpupool::internal {
namespace {

/// Less is not worth a call of the system.
constexpr size_t kLeastMapped = size_t{64} << 10;

}  // namespace

void* get_zeros(size_t bytes) noexcept {
  return bytes < kLeastMapped ? std::calloc(1, bytes) : os::map_untouched(bytes);
}

void release_zeros(void* memory, size_t bytes) noexcept {
  bytes < kLeastMapped ? std::free(memory) : os::unmap_pages(memory, bytes);
}

}  // namespace gpupool::internal
