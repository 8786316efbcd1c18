// SPDX-License-Identifier: Apache-2.0
#include "device/sim_memory.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpupool {
namespace {

using Long = unsigned long long;  // for printf

/// Whether size bytes at address are a range of whole granules.
bool is_granular(Address address, uint64_t size) noexcept {
  return size != 0 && (address | size) % kSimGranularity == 0;
}

/// The last entry that begins at or before address, or end().
template <class Map>
auto entry_at(Map& map, Address address) {
  auto it = map.upper_bound(address);
  return it == map.begin() ? map.end() : std::prev(it);
}

}  // namespace

SimMemory::~SimMemory() {
  for (const auto& [address, extent] : extents_) {
    if (extent.chunk == 0) backing_->release(address, extent.size);
  }
  for (const auto& [base, size] : reservations_) backing_->release(base, size);
}

// ---- addresses

Status SimMemory::reserve_addresses(uint64_t size, Address& base) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "reserve_addresses of %llu bytes: not whole granules",
                          Long{size});
  }
  if (size > kSimMaxReservation || size > kSimAddressSpace - reserved_) {
    return fail_driver(GPUPOOL_ERROR_DRIVER, driver_code::kOutOfMemory,
                       "simulated device: %llu bytes of addresses beyond %llu reserved are too many",
                       Long{size}, Long{reserved_});
  }
  Address found = 0;
  if (const Status status = backing_->reserve(size, kSimGranularity, found); status != kSuccess)
    return status;
  reservations_.emplace(found, size);
  reserved_ += size;
  base = found;
  return kSuccess;
}

Status SimMemory::release_addresses(Address base, uint64_t size) {
  const auto found = reservations_.find(base);
  if (found == reservations_.end() || found->second != size) {
    return faults_.refuse(driver_code::kInvalidValue,
                          "release_addresses of %#llx, %llu bytes: no reservation", Long{base}, Long{size});
  }
  const auto inside = extents_.lower_bound(base);
  if (inside != extents_.end() && inside->first < base + size) {
    return faults_.refuse(driver_code::kInvalidValue, "release_addresses of %#llx: %#llx is still mapped",
                          Long{base}, Long{inside->first});
  }
  reservations_.erase(found);
  reserved_ -= size;
  backing_->release(base, size);
  return kSuccess;
}

bool SimMemory::is_reserved(Address address, uint64_t size) const {
  const auto found = entry_at(reservations_, address);
  return found != reservations_.end() && address - found->first < found->second &&
         size <= found->second - (address - found->first);
}

// ---- chunks

Status SimMemory::take(uint64_t size) {
  if (size > free()) {
    return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                       "simulated device: %llu bytes wanted, %llu of %llu free", Long{size}, Long{free()},
                       Long{capacity_});
  }
  used_ += size;
  return kSuccess;
}

Status SimMemory::create_chunk(uint64_t size, ChunkHandle& chunk) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "create_chunk of %llu bytes: not whole granules",
                          Long{size});
  }
  if (const Status status = take(size); status != kSuccess) return status;
  uint64_t offset = 0;
  if (const Status status = backing_->create(size, offset); status != kSuccess) {
    used_ -= size;
    return status;
  }
  chunks_.emplace(next_chunk_, Chunk{size, offset, 0, false});
  chunk = next_chunk_++;
  return kSuccess;
}

Status SimMemory::release_chunk(ChunkHandle chunk) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end() || found->second.released) {
    return faults_.refuse(driver_code::kInvalidValue, "release_chunk of %llu: no such chunk", Long{chunk});
  }
  found->second.released = true;
  give_back_if_unused(found);
  return kSuccess;
}

/// Memory returns to the device when neither the handle nor a mapping holds the chunk.
void SimMemory::give_back_if_unused(Chunks::iterator chunk) {
  const Chunk& state = chunk->second;
  if (!state.released || state.mappings != 0) return;
  used_ -= state.size;
  backing_->discard(state.offset, state.size);
  chunks_.erase(chunk);
}

uint64_t SimMemory::chunk_size(ChunkHandle chunk) const {
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() ? 0 : found->second.size;
}

// ---- mappings

Status SimMemory::map(Address address, uint64_t size, ChunkHandle chunk) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end() || found->second.released) {
    return faults_.refuse(driver_code::kInvalidValue, "map of chunk %llu: no such chunk", Long{chunk});
  }
  if (size != found->second.size) {
    return faults_.refuse(driver_code::kNotSupported, "map of %llu bytes of a chunk of %llu: not all of it",
                          Long{size}, Long{found->second.size});
  }
  if (!is_granular(address, size) || !is_reserved(address, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "map at %#llx, %llu bytes: not in reserved addresses",
                          Long{address}, Long{size});
  }
  const auto before = entry_at(extents_, address + size - 1);
  if (before != extents_.end() && before->first + before->second.size > address) {
    return faults_.refuse(driver_code::kInvalidValue, "map at %#llx, %llu bytes: %#llx is mapped already",
                          Long{address}, Long{size}, Long{before->first});
  }
  const auto [extent, inserted] =
      extents_.emplace(address, Extent{size, found->second.offset, chunk, Kind::device, 0, 0});
  if (const Status status = backing_->map(address, size, found->second.offset); status != kSuccess) {
    extents_.erase(extent);
    return status;
  }
  ++found->second.mappings;
  return kSuccess;
}

/// Refuses [address, address + size) unless it is whole mappings, one behind the other.
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

Status SimMemory::set_access(Address address, uint64_t size, uint64_t accessors) {
  if (const Status status = check_whole_mappings("set_access", address, size); status != kSuccess) {
    return status;
  }
  if (const Status status = backing_->set_access(address, size); status != kSuccess) return status;
  for (auto it = extents_.find(address); it != extents_.end() && it->first - address < size; ++it) {
    it->second.accessors = accessors;
  }
  return kSuccess;
}

Status SimMemory::unmap(Address address, uint64_t size, uint64_t now) {
  if (const Status status = check_whole_mappings("unmap", address, size); status != kSuccess) return status;
  const auto first = extents_.find(address);
  auto end = first;
  for (; end != extents_.end() && end->first - address < size; ++end) {
    if (end->second.used_until <= now) continue;
    return faults_.refuse(driver_code::kIllegalAddress,
                          "unmapped while in use: %#llx is used until %llu ns, and it is %llu ns",
                          Long{end->first}, Long{end->second.used_until}, Long{now});
  }
  if (const Status status = backing_->unmap(address, size); status != kSuccess) return status;
  for (auto it = first; it != end; ++it) {
    const auto chunk = chunks_.find(it->second.chunk);
    --chunk->second.mappings;
    give_back_if_unused(chunk);
  }
  extents_.erase(first, end);
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
  const bool on_device = kind != Kind::pinned;
  if (on_device) {
    if (const Status status = take(size); status != kSuccess) return status;
  }
  Extent extent{size, 0, 0, kind, allocation_accessors_, 0};
  Address found = 0;
  if (const Status status = back(size, extent, found); status != kSuccess) {
    if (on_device) used_ -= size;
    return status;
  }
  extents_.emplace(found, extent);
  address = found;
  return kSuccess;
}

/// Addresses of their own for new physical memory, ready for use.
Status SimMemory::back(uint64_t size, Extent& extent, Address& address) {
  const uint64_t alignment = size >= kSimGranularity ? kSimGranularity : 512;
  if (const Status status = backing_->create(size, extent.offset); status != kSuccess) return status;
  if (const Status status = backing_->reserve(size, alignment, address); status != kSuccess) return status;
  Status status = backing_->map(address, size, extent.offset);
  if (status == kSuccess) status = backing_->set_access(address, size);
  if (status != kSuccess) backing_->release(address, size);
  return status;
}

Status SimMemory::deallocate(Kind kind, Address address, uint64_t size) {
  const auto found = extents_.find(address);
  if (found == extents_.end() || found->second.chunk != 0 || found->second.size != size ||
      found->second.kind != kind) {
    return faults_.refuse(driver_code::kInvalidValue, "deallocate of %#llx, %llu bytes: not allocated so",
                          Long{address}, Long{size});
  }
  backing_->release(address, size);
  backing_->discard(found->second.offset, size);
  if (kind != Kind::pinned) used_ -= size;
  extents_.erase(found);
  return kSuccess;
}

/// As a context's peer access does: for what there is and for what comes.
void SimMemory::share_allocations(uint64_t accessors) noexcept {
  allocation_accessors_ |= accessors;
  for (auto& [address, extent] : extents_) {
    if (extent.chunk == 0) extent.accessors |= accessors;
  }
}

// ---- what work may touch

bool SimMemory::resolve(Address address, uint64_t size, std::vector<Piece>& pieces) {
  if (size > kNever - address) return false;
  const Address end = address + size;
  for (auto it = entry_at(extents_, address); address < end; ++it) {
    if (it == extents_.end() || it->first > address || address - it->first >= it->second.size ||
        it->second.accessors == 0) {
      return false;
    }
    const uint64_t skip = address - it->first;
    const uint64_t part = std::min(end - address, it->second.size - skip);
    pieces.push_back({&it->second, it->second.offset + skip, part});
    address += part;
  }
  return true;
}

bool SimMemory::is_foreign(Address address, uint64_t size) const {
  if (size == 0 || size > kNever - address) return false;
  const Address last = address + size - 1;
  const auto reservation = entry_at(reservations_, last);
  if (reservation != reservations_.end() && reservation->first + reservation->second > address) return false;
  const auto extent = entry_at(extents_, last);
  return extent == extents_.end() || extent->first + extent->second.size <= address;
}

}  // namespace gpupool
