// SPDX-License-Identifier: Apache-2.0
// Data off: addresses are numbers, and memory is only counted.
#include <algorithm>
#include <iterator>

#include "device/sim_backing.hpp"
#include "device/sim_clock.hpp"

namespace gpupool {
namespace {

/// Sizes and addresses are multiples of it.
constexpr uint64_t kUnit = 512;

class AddressBacking final : public SimBacking {
 public:
  explicit AddressBacking(SimAddressSpace& addresses) : addresses_(addresses) {}

  bool has_data() const noexcept override { return false; }

  Status reserve(uint64_t size, uint64_t alignment, Address& base) override {
    if (addresses_.take(size, alignment, base)) return kSuccess;
    return fail_driver(GPUPOOL_ERROR_DRIVER, driver_code::kOutOfMemory,
                       "simulated device: no %llu bytes of addresses are free below 2^47",
                       static_cast<unsigned long long>(size));
  }
  void release(Address base, uint64_t size) noexcept override { addresses_.give(base, size); }

  Status create(uint64_t size, uint64_t& offset) override {
    offset = next_offset_;
    next_offset_ += size;
    return kSuccess;
  }
  void discard(uint64_t, uint64_t) noexcept override {}

  Status map(Address, uint64_t, uint64_t) override { return kSuccess; }
  Status set_access(Address, uint64_t) override { return kSuccess; }
  Status unmap(Address, uint64_t) override { return kSuccess; }

  // There are no bytes to copy; the device says so before it asks.
  bool write(uint64_t, Address, uint64_t) noexcept override { return false; }
  bool read(Address, uint64_t, uint64_t) noexcept override { return false; }

 private:
  SimAddressSpace& addresses_;
  uint64_t next_offset_ = 0;
};

}  // namespace

bool SimAddressSpace::take(uint64_t size, uint64_t alignment, Address& base) {
  const std::lock_guard lock(mutex_);
  // Any range this large holds size bytes at the alignment.
  const uint64_t enough = size + (std::max(alignment, kUnit) - kUnit);
  const auto found = by_size_.lower_bound({enough, 0});
  if (found == by_size_.end()) return false;
  const auto [free, first] = *found;
  erase(first, free);
  base = align_up(first, alignment);
  if (base != first) insert(first, base - first);
  const Address end = base + size;
  if (end != first + free) insert(end, first + free - end);
  return true;
}

void SimAddressSpace::give(Address base, uint64_t size) {
  const std::lock_guard lock(mutex_);
  Address first = base;
  Address end = base + size;
  const auto after = by_address_.lower_bound(base);
  if (after != by_address_.begin()) {
    const auto [free_base, free_size] = *std::prev(after);
    if (free_base + free_size == base) {
      first = free_base;
      erase(free_base, free_size);
    }
  }
  if (after != by_address_.end() && after->first == end) {
    const uint64_t free_size = after->second;
    erase(end, free_size);
    end += free_size;
  }
  insert(first, end - first);
}

void SimAddressSpace::insert(Address base, uint64_t size) {
  by_address_.emplace(base, size);
  by_size_.emplace(size, base);
}

void SimAddressSpace::erase(Address base, uint64_t size) {
  by_address_.erase(base);
  by_size_.erase({size, base});
}

std::unique_ptr<SimBacking> make_address_backing(SimAddressSpace& addresses) {
  return std::make_unique<AddressBacking>(addresses);
}

}  // namespace gpupool
