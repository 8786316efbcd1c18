// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/addresses.hpp"

#include <algorithm>
#include <atomic>
#include <cinttypes>

#include "base/defer.hpp"

namespace gpupool::internal {
namespace {

/// Addresses that all pools of the process have reserved.
constinit std::atomic<uint64_t> reserved_addresses{0};

Status out_of_addresses(uint64_t size) {
  const int32_t code = last_error().driver_code;
  return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, code,
                     "this process has no %" PRIu64 " bytes of addresses left", size);
}

}  // namespace

Status Addresses::find_places(Heap& heap, uint64_t bytes, uint64_t alignment, Windows& windows,
                              size_t& count) {
  are_gone_ = false;
  count = heap.find_windows(bytes, alignment, windows);
  if (count != 0) return kSuccess;
  if (const Status status = add_region(heap, bytes + alignment); status != kSuccess) return status;
  count = heap.find_windows(bytes, alignment, windows);
  return count != 0 ? kSuccess : fail(GPUPOOL_ERROR_INTERNAL, "a new region of addresses has no room");
}

Status Addresses::find_room(Heap& heap, uint64_t bytes, Address& address) {
  if (heap.find_room(std::max(bytes, region_size(heap.group()) / policy::kRunParts), address))
    return kSuccess;
  if (const Status status = add_region(heap, bytes); status != kSuccess) return status;
  return heap.find_room(bytes, address)
             ? kSuccess
             : fail(GPUPOOL_ERROR_INTERNAL, "a new region of addresses has no room");
}

/// How many addresses a heap gets at a time: as many as the device has memory. They cost nothing, so holes in
/// them never matter. But a process has only 2^47 addresses, and its other libraries want some too. So pools
/// share half of them, and a region gets at most a part of what is left: hundreds of heaps get the full size,
/// and thousands still get some.
uint64_t Addresses::region_size(SizeGroup group) const noexcept {
  constexpr uint64_t kAll = uint64_t{1} << 46;
  const uint64_t reserved = reserved_addresses.load(std::memory_order_relaxed);
  const uint64_t part = (kAll - std::min(kAll, reserved)) / policy::kAddressParts;
  uint64_t size = std::min(std::bit_ceil(device_.info().total), part);
  if (group == SizeGroup::small) size /= policy::kSmallAddressParts;
  return align_up(std::max(size, policy::kLeastRegion), kGranule);
}

Status Addresses::add_region(Heap& heap, uint64_t bytes) {
  const uint64_t least = align_up(bytes, kGranule);
  are_gone_ = false;
  uint64_t size = std::max(region_size(heap.group()), least);
  for (;; size = std::max(align_up(size / 2, kGranule), least)) {
    Address base = 0;
    const Status status = device_.reserve_addresses(size, base);
    if (status == kSuccess) {
      Defer release([&] { (void)device_.release_addresses(base, size); });
      if (!AddressMap::covers(base, size)) {
        return fail(GPUPOOL_ERROR_UNSUPPORTED, "the driver's addresses do not fit in 48 bits");
      }
      heap.add_region(base, size);
      release.cancel();
      reserved_addresses.fetch_add(size, std::memory_order_relaxed);
      return kSuccess;
    }
    if (size != least) continue;
    are_gone_ = status == GPUPOOL_ERROR_OUT_OF_MEMORY;
    return are_gone_ ? out_of_addresses(least) : status;
  }
}

void Addresses::release(Region& region) noexcept {
  if (device_.release_addresses(region.base, region.size) != kSuccess) return;
  reserved_addresses.fetch_sub(region.size, std::memory_order_relaxed);
  region.size = 0;
}

}  // namespace gpupool::internal
