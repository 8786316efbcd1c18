// SPDX-License-Identifier: Apache-2.0
#include "device/sim/memory.hpp"

#include <algorithm>
#include <utility>

#include "base/defer.hpp"
#include "device/sim/by_address.hpp"

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

}  // namespace

SimMemory::~SimMemory() {
  for (const auto& [address, extent] : extents_) {
    if (extent.chunk == 0) backing_->release(address, extent.size);
  }
}

/// The mapping or block that an address is in, or end().
SimMemory::Extents::const_iterator SimMemory::extent_with(Address address) const {
  const auto extent = entry_at(extents_, address);
  return extent != extents_.end() && address - extent->first < extent->second.size ? extent : extents_.end();
}

Status SimMemory::release_addresses(Address base, uint64_t size) {
  if (const Status status = reservations_.check_release(base, size); status != kSuccess) return status;
  const auto inside = extents_.lower_bound(base);
  if (inside != extents_.end() && inside->first < base + size) {
    return faults_.refuse(driver_code::kInvalidValue, "release_addresses of %#llx: %#llx is still mapped",
                          Long{base}, Long{inside->first});
  }
  reservations_.release(base);
  return kSuccess;
}

// ---- mappings

Status SimMemory::map(Address address, uint64_t size, ChunkHandle chunk) {
  const SimChunks::Chunk* const found = chunks_.find(chunk);
  if (found == nullptr) {
    return faults_.refuse(driver_code::kInvalidValue, "map of chunk %llu: no such chunk", Long{chunk});
  }
  if (size != found->size) {
    return faults_.refuse(driver_code::kNotSupported, "map of %llu bytes of a chunk of %llu: not all of it",
                          Long{size}, Long{found->size});
  }
  if (!is_granular(address, size) || !reservations_.has(address, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "map at %#llx, %llu bytes: not in reserved addresses",
                          Long{address}, Long{size});
  }
  const auto before = entry_at(extents_, address + size - 1);
  if (before != extents_.end() && before->first + before->second.size > address) {
    return faults_.refuse(driver_code::kInvalidValue, "map at %#llx, %llu bytes: %#llx is mapped already",
                          Long{address}, Long{size}, Long{before->first});
  }
  const auto [extent, inserted] =
      extents_.emplace(address, Extent{size, found->offset, chunk, Kind::device, 0, false, {}});
  if (const Status status = backing_->map(address, size, found->offset); status != kSuccess) {
    extents_.erase(extent);
    return status;
  }
  chunks_.attach(chunk);
  return kSuccess;
}

/// Refuses [address, address + size) unless it consists of whole, adjacent mappings.
Status SimMemory::check_whole_mappings(const char* call, Address address, uint64_t size) {
  auto extent = extents_.find(address);
  uint64_t covered = 0;
  while (covered < size && extent != extents_.end() && extent->first == address + covered &&
         extent->second.chunk != 0) {
    covered += extent->second.size;
    ++extent;
  }
  if (covered == size && size != 0) return kSuccess;
  return faults_.refuse(driver_code::kInvalidValue, "%s of %#llx, %llu bytes: not whole mappings", call,
                        Long{address}, Long{size});
}

/// Refuses to remove an extent that work on one of `devices` uses.
Status SimMemory::check_idle(const char* call, Address address, const Extent& extent, SimDeviceSet devices,
                             const SimTimes& now) {
  for (int32_t user = 0; user < kSimDeviceCount; ++user) {
    const uint64_t until = extent.used_until[static_cast<size_t>(user)];
    const uint64_t moment = now[static_cast<size_t>(user)];
    if ((devices & sim_device_set(user)) == 0 || until <= moment) continue;
    return faults_.refuse(driver_code::kIllegalAddress,
                          "%s while in use: %#llx of device %d is used by device %d until %llu ns, and it is "
                          "%llu ns there",
                          call, Long{address}, ordinal_, user, Long{until}, Long{moment});
  }
  return kSuccess;
}

Status SimMemory::protect(Address address, uint64_t size, Permission access, SimDeviceSet accessors) {
  if (const Status status = check_whole_mappings("set_access", address, size); status != kSuccess) {
    return status;
  }
  if (const Status status = backing_->set_access(address, size, access); status != kSuccess) return status;
  for (auto it = extents_.find(address); it != extents_.end() && it->first - address < size; ++it) {
    it->second.accessors = access == Permission::none ? 0 : accessors;
    it->second.is_read_only = access == Permission::read;
  }
  if (access != Permission::none) closed_.repeat(address, size);
  return kSuccess;
}

Status SimMemory::unmap(Address address, uint64_t size, const SimTimes& now) {
  if (const Status status = check_whole_mappings("unmap", address, size); status != kSuccess) return status;
  const auto first = extents_.find(address);
  auto end = first;
  for (; end != extents_.end() && end->first - address < size; ++end) {
    const Status status = check_idle("unmapped", end->first, end->second, kAllSimDevices, now);
    if (status != kSuccess) return status;
  }
  if (const Status status = backing_->unmap(address, size); status != kSuccess) return status;
  for (auto it = first; it != end; ++it) chunks_.detach(it->second.chunk);
  extents_.erase(first, end);
  return kSuccess;
}

Status SimMemory::hold(Address address) {
  if (address == 0) {
    chunks_.end_holds();
    return kSuccess;
  }
  const auto extent = extent_with(address);
  if (extent == extents_.end() || extent->second.chunk == 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "simulated device: no chunk is mapped at %#llx",
                Long{address});
  }
  chunks_.hold(extent->second.chunk);
  return kSuccess;
}

// ---- the driver's own malloc

Status SimMemory::allocate(Kind kind, uint64_t size, Address& address) {
  if (size == 0 || size % 512 != 0) {
    return faults_.refuse(driver_code::kInvalidValue, "allocate of %llu bytes: not a multiple of 512",
                          Long{size});
  }
  if (size > kSimMaxReservation) {
    return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                       "simulated device: %llu bytes in one block are too many", Long{size});
  }
  const bool is_pinned = kind == Kind::pinned;
  const Status charged = is_pinned ? capacity_.pin(size) : capacity_.charge(size);
  if (charged != kSuccess) return charged;
  Defer undo([&] { is_pinned ? capacity_.unpin(size) : capacity_.refund(size); });
  // Every device can use pinned memory, and managed memory goes where it is used.
  const SimDeviceSet accessors = kind == Kind::device ? allocation_accessors_ : kAllSimDevices;
  auto entry = made_ahead<Extents>({size, 0, 0, kind, accessors, false, {}});
  Address found = 0;
  if (const Status status = back(size, entry.mapped(), found); status != kSuccess) return status;
  insert_at(extents_, found, std::move(entry));
  undo.cancel();
  address = found;
  return kSuccess;
}

/// Gives new physical memory its own addresses, ready for use.
Status SimMemory::back(uint64_t size, Extent& extent, Address& address) {
  const uint64_t alignment = size >= kSimGranularity ? kSimGranularity : 512;
  if (const Status status = backing_->create(size, extent.offset); status != kSuccess) return status;
  if (const Status status = backing_->reserve(size, alignment, address); status != kSuccess) return status;
  Status status = backing_->map(address, size, extent.offset);
  if (status == kSuccess) status = backing_->set_access(address, size, Permission::write);
  if (status != kSuccess) backing_->release(address, size);
  return status;
}

Status SimMemory::deallocate(Kind kind, Address address, uint64_t size, const SimTimes& now) {
  const auto found = extents_.find(address);
  if (found == extents_.end() || found->second.chunk != 0 || found->second.size != size ||
      found->second.kind != kind) {
    return faults_.refuse(driver_code::kInvalidValue, "deallocate of %#llx, %llu bytes: not allocated so",
                          Long{address}, Long{size});
  }
  const SimDeviceSet others = kAllSimDevices & ~sim_device_set(ordinal_);
  if (const Status status = check_idle("deallocated", address, found->second, others, now);
      status != kSuccess) {
    return status;
  }
  backing_->release(address, size);
  backing_->discard(found->second.offset, size);
  if (kind == Kind::pinned) {
    capacity_.unpin(size);
  } else {
    capacity_.refund(size);
  }
  extents_.erase(found);
  return kSuccess;
}

/// As a context's peer access does: for existing and future memory.
void SimMemory::share_allocations(SimDeviceSet accessors) noexcept {
  if ((accessors & ~allocation_accessors_) == 0) return;
  allocation_accessors_ |= accessors;
  for (auto& [address, extent] : extents_) {
    if (extent.chunk == 0) extent.accessors |= accessors;
  }
}

void SimMemory::forget_work_of(int32_t ordinal) noexcept {
  for (auto& [address, extent] : extents_) extent.used_until[static_cast<size_t>(ordinal)] = 0;
}

// ---- fork

void SimMemory::before_fork() noexcept {
  if (!extents_.empty()) backing_->copy_for_child();
}

void SimMemory::after_fork_in_parent() noexcept {
  backing_->drop_copy();
}

void SimMemory::after_fork_in_child() noexcept {
  capacity_.after_fork_in_child();
  backing_->become_copy();
  for (const auto& [address, extent] : extents_) {
    const Permission access = extent.accessors == 0 ? Permission::none
                              : extent.is_read_only ? Permission::read
                                                    : Permission::write;
    backing_->map_again(address, extent.size, extent.offset, access);
    if (access != Permission::none) closed_.repeat(address, extent.size);
  }
}

// ---- what work may touch

bool SimMemory::resolve(Address address, uint64_t size, std::vector<ExtentPart>& parts) {
  if (size > kNever - address) return false;
  const Address end = address + size;
  for (auto it = entry_at(extents_, address); address < end; ++it) {
    if (it == extents_.end() || it->first > address || address - it->first >= it->second.size ||
        it->second.accessors == 0) {
      return false;
    }
    const uint64_t skip = address - it->first;
    const uint64_t part = std::min(end - address, it->second.size - skip);
    parts.push_back({&it->second, it->second.offset + skip, part});
    address += part;
  }
  return true;
}

bool SimMemory::is_pinned(Address address) const {
  const auto extent = extent_with(address);
  return extent != extents_.end() && extent->second.kind == Kind::pinned;
}

bool SimMemory::has_any_of(Address address, uint64_t size) const {
  if (size == 0) return false;
  const Address last = address + std::min(size - 1, kNever - address);
  if (reservations_.has_any(address, last)) return true;
  const auto extent = entry_at(extents_, last);
  return extent != extents_.end() && extent->first + extent->second.size > address;
}

}  // namespace gpupool::internal
