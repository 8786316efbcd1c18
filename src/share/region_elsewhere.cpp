// SPDX-License-Identifier: Apache-2.0
// Groups need a file whose locks end with the process that took them, byte by byte, and a word in it that
// processes wait for: only Linux has both. A process that should share runs alone, and says so.
#include "share/region.hpp"

namespace gpupool::internal::share {

std::string Place::path() const {
  return group + "." + device;
}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() = default;

Status open_region(const Place& place, bool, File&) {
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "only on Linux do processes share, so there is no group %s",
              place.group.c_str());
}

// No region is ever open, so nobody calls the others.

Status map_region(const File&, Layout*& layout) {
  layout = nullptr;
  return kSuccess;
}

void unmap_region(Layout*) noexcept {}

bool lock_slot(const File&, uint32_t) noexcept {
  return false;
}

void unlock_slot(const File&, uint32_t) noexcept {}

bool is_locked(const File&, uint32_t) noexcept {
  return false;
}

uint64_t now_ns() noexcept {
  return 0;
}

void wait_for(Bell&, uint32_t, uint64_t) noexcept {}

void ring(Bell&) noexcept {}

}  // namespace gpupool::internal::share
