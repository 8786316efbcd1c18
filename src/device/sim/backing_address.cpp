// SPDX-License-Identifier: Apache-2.0
// Without data: addresses are numbers, and memory is only counted.
#include <algorithm>
#include <iterator>

#include "device/sim/backing.hpp"
#include "device/sim/clock.hpp"

namespace gpupool::internal {
namespace {

/// Sizes and addresses are multiples of this.
constexpr uint64_t kSimUnit = 512;

class AddressBacking final : public SimBacking {
 public:
  explicit AddressBacking(SimAddressSpace& addresses) : addresses_(addresses) {}

  bool has_data() const noexcept override { return false; }

  Status reserve(uint64_t size, uint64_t alignment, Address& base) override {
    if (addresses_.reserve(size, alignment, base)) return kSuccess;
    return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                       "simulated device: no %llu bytes of addresses are free below 2^47",
                       static_cast<unsigned long long>(size));
  }
  void release(Address base, uint64_t) noexcept override { addresses_.release(base); }

  Status create(uint64_t size, uint64_t& offset) override {
    offset = next_offset_;
    next_offset_ += size;
    return kSuccess;
  }
  void discard(uint64_t, uint64_t) noexcept override {}

  Status map(Address, uint64_t, uint64_t) override { return kSuccess; }
  Status set_access(Address, uint64_t, Permission) override { return kSuccess; }
  Status unmap(Address, uint64_t) override { return kSuccess; }

  void copy_for_child() noexcept override {}
  void drop_copy() noexcept override {}
  void become_copy() noexcept override {}
  void map_again(Address, uint64_t, uint64_t, Permission) noexcept override {}

  // There are no bytes to copy; the device refuses before it calls this.
  bool write(uint64_t, Address, uint64_t) noexcept override { return false; }
  bool read(Address, uint64_t, uint64_t) noexcept override { return false; }

 private:
  SimAddressSpace& addresses_;
  uint64_t next_offset_ = 0;
};

}  // namespace

SimAddressSpace::SimAddressSpace() {
  const auto all = ranges_.emplace(kTiB, Range{kSimAddressSpace - kTiB, {}}).first;
  free_.emplace(all->second.size, all->first);
}

bool SimAddressSpace::reserve(uint64_t size, uint64_t alignment, Address& base) {
  const std::lock_guard lock(mutex_);
  // Any range this large holds size bytes at the alignment.
  const uint64_t enough = size + (std::max(alignment, kSimUnit) - kSimUnit);
  const auto place = free_.lower_bound({enough, 0});
  if (place == free_.end()) return false;
  const auto [whole, first] = *place;
  base = align_up(first, alignment);
  const Address end = base + size;
  Ranges::node_type before = base != first ? new_range() : Ranges::node_type();
  Ranges::node_type behind = end != first + whole ? new_range() : Ranges::node_type();
  // Nothing below allocates.
  Ranges::node_type taken = ranges_.extract(first);
  taken.mapped().size = size;
  taken.mapped().place = free_.extract(place);
  taken.key() = base;
  ranges_.insert(std::move(taken));
  if (before) insert_free(std::move(before), first, base - first);
  if (behind) insert_free(std::move(behind), end, first + whole - end);
  return true;
}

void SimAddressSpace::release(Address base) noexcept {
  const std::lock_guard lock(mutex_);
  auto range = ranges_.find(base);
  if (const auto next = std::next(range); next != ranges_.end() && next->second.place.empty()) {
    range->second.size += next->second.size;
    free_.erase({next->second.size, next->first});
    ranges_.erase(next);
  }
  if (range != ranges_.begin()) {
    if (const auto previous = std::prev(range); previous->second.place.empty()) {
      previous->second.place = free_.extract({previous->second.size, previous->first});
      previous->second.size += range->second.size;
      ranges_.erase(range);
      range = previous;
    }
  }
  set_free(range);
}

/// A range in no list yet, with all the memory that it will ever need.
SimAddressSpace::Ranges::node_type SimAddressSpace::new_range() {
  Ranges range;
  Sizes place;
  place.emplace();
  range.emplace(0, Range{0, place.extract(place.begin())});
  return range.extract(range.begin());
}

void SimAddressSpace::insert_free(Ranges::node_type range, Address base, uint64_t size) noexcept {
  range.key() = base;
  range.mapped().size = size;
  set_free(ranges_.insert(std::move(range)).position);
}

void SimAddressSpace::set_free(Ranges::iterator range) noexcept {
  range->second.place.value() = {range->second.size, range->first};
  free_.insert(std::move(range->second.place));
}

std::unique_ptr<SimBacking> make_address_backing(SimAddressSpace& addresses) {
  return std::make_unique<AddressBacking>(addresses);
}

}  // namespace gpupool::internal
