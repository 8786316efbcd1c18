// SPDX-License-Identifier: Apache-2.0
#include "device/sim/memory.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/defer.hpp"

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

/// Whether size bytes at address are whole granules.
bool is_granular(Address address, uint64_t size) noexcept {
  return size != 0 && (address | size) % kSimGranularity == 0;
}

/// The last entry that begins at or before address, or end().
template <class Map>
auto entry_at(Map& map, Address address) {
  auto it = map.upper_bound(address);
  return it == map.begin() ? map.end() : std::prev(it);
}

/// An entry whose key is set later: inserting it into the map then cannot fail.
template <class Map>
typename Map::node_type made_ahead(const typename Map::mapped_type& value) {
  Map map;
  map.emplace(typename Map::key_type{}, value);
  return map.extract(map.begin());
}

template <class Map>
void put(Map& map, typename Map::key_type key, typename Map::node_type entry) noexcept {
  entry.key() = key;
  map.insert(std::move(entry));
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
  auto reservation = made_ahead<Reservations>(size);
  Address found = 0;
  if (const Status status = backing_->reserve(size, kSimGranularity, found); status != kSuccess)
    return status;
  put(reservations_, found, std::move(reservation));
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

uint64_t SimMemory::free() const noexcept {
  const uint64_t used = shared_ == nullptr ? used_ : std::max(used_, shared_->used());
  return capacity_ - std::min(capacity_, used);
}

Status SimMemory::charge(uint64_t size) {
  if (size <= capacity_ - used_ && (shared_ == nullptr || shared_->charge(size, capacity_))) {
    used_ += size;
    return kSuccess;
  }
  return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                     "simulated device: %llu bytes wanted, %llu of %llu free", Long{size}, Long{free()},
                     Long{capacity_});
}

void SimMemory::discharge(uint64_t size) noexcept {
  used_ -= size;
  if (shared_ != nullptr) shared_->refund(size);
}

Status SimMemory::create_chunk(uint64_t size, ChunkHandle& chunk) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "create_chunk of %llu bytes: not whole granules",
                          Long{size});
  }
  if (const Status status = charge(size); status != kSuccess) return status;
  Defer undo([&] { discharge(size); });
  uint64_t offset = 0;
  if (const Status status = backing_->create(size, offset); status != kSuccess) return status;
  chunks_.emplace(next_chunk_, Chunk{size, offset, 0, false, false, false});
  undo.cancel();
  chunk = next_chunk_++;
  return kSuccess;
}

Status SimMemory::release_chunk(ChunkHandle chunk) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end() || found->second.released) {
    return faults_.refuse(driver_code::kInvalidValue, "release_chunk of %llu: no such chunk", Long{chunk});
  }
  found->second.released = true;
  release_if_unused(found);
  return kSuccess;
}

/// Memory returns to the device when no handle, no mapping and no other holder keeps the chunk.
void SimMemory::release_if_unused(Chunks::iterator chunk) {
  const Chunk& state = chunk->second;
  if (!state.released || state.mappings != 0 || state.held) return;
  if (!state.imported) discharge(state.size);
  backing_->discard(state.offset, state.size);
  chunks_.erase(chunk);
}

Status SimMemory::export_chunk(ChunkHandle chunk, SharedChunk& shared) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end() || found->second.released) {
    return faults_.refuse(driver_code::kInvalidValue, "export_chunk of %llu: no such chunk", Long{chunk});
  }
  return backing_->export_part(found->second.offset, shared);
}

Status SimMemory::import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "import_chunk of %llu bytes: not whole granules",
                          Long{size});
  }
  uint64_t offset = 0;
  if (const Status status = backing_->import_part(shared, size, offset); status != kSuccess) return status;
  Defer undo([&] { backing_->discard(offset, size); });
  chunks_.emplace(next_chunk_, Chunk{size, offset, 0, false, false, true});
  undo.cancel();
  chunk = next_chunk_++;
  return kSuccess;
}

uint64_t SimMemory::chunk_size(ChunkHandle chunk) const {
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() ? 0 : found->second.size;
}

Status SimMemory::hold(Address address) {
  if (address == 0) {
    for (auto it = chunks_.begin(); it != chunks_.end();) {
      const auto chunk = it++;
      chunk->second.held = false;
      release_if_unused(chunk);
    }
    return kSuccess;
  }
  const auto extent = entry_at(extents_, address);
  if (extent == extents_.end() || address - extent->first >= extent->second.size ||
      extent->second.chunk == 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "simulated device: no chunk is mapped at %#llx",
                Long{address});
  }
  chunks_.find(extent->second.chunk)->second.held = true;
  return kSuccess;
}

// ---- messages about sleeping memory

void SimMemory::name_asleep(Address address, uint64_t size, const char* pool) noexcept {
  const auto first = sleeping_.lower_bound(address);
  sleeping_.erase(first, sleeping_.lower_bound(address + size));
  if (pool == nullptr) return;
  try {
    sleeping_.insert_or_assign(address, Sleeping{size, pool});
  } catch (const std::bad_alloc&) {
    // Messages will say less then.
  }
}

std::string SimMemory::name_of_sleeper(Address address, uint64_t size) const {
  const auto last = entry_at(sleeping_, address + std::min(size - 1, kNever - address));
  if (last == sleeping_.end() || last->first + last->second.size <= address) return {};
  return ", which is asleep in pool '" + last->second.pool + "'";
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
      extents_.emplace(address, Extent{size, found->second.offset, chunk, Kind::device, 0, false, {}});
  if (const Status status = backing_->map(address, size, found->second.offset); status != kSuccess) {
    extents_.erase(extent);
    return status;
  }
  ++found->second.mappings;
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
  for (auto it = first; it != end; ++it) {
    const auto chunk = chunks_.find(it->second.chunk);
    --chunk->second.mappings;
    release_if_unused(chunk);
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
  const uint64_t taken = kind == Kind::pinned ? 0 : size;
  if (kind == Kind::pinned && size > host_free()) {
    return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                       "simulated device: %llu bytes of the host wanted, %llu can be page-locked", Long{size},
                       Long{host_free()});
  }
  if (const Status status = charge(taken); status != kSuccess) return status;
  Defer undo([&] { discharge(taken); });
  // Every device can use pinned memory, and managed memory goes where it is used.
  const SimDeviceSet accessors = kind == Kind::device ? allocation_accessors_ : kAllSimDevices;
  auto entry = made_ahead<Extents>({size, 0, 0, kind, accessors, false, {}});
  Address found = 0;
  if (const Status status = back(size, entry.mapped(), found); status != kSuccess) return status;
  put(extents_, found, std::move(entry));
  undo.cancel();
  if (kind == Kind::pinned) pinned_ += size;
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
    pinned_ -= size;
  } else {
    discharge(size);
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
  if (shared_ != nullptr) shared_->forget();
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

bool SimMemory::is_pinned(Address address) const {
  const auto extent = entry_at(extents_, address);
  return extent != extents_.end() && address - extent->first < extent->second.size &&
         extent->second.kind == Kind::pinned;
}

bool SimMemory::has_any_of(Address address, uint64_t size) const {
  if (size == 0) return false;
  const Address last = address + std::min(size - 1, kNever - address);
  const auto reservation = entry_at(reservations_, last);
  if (reservation != reservations_.end() && reservation->first + reservation->second > address) return true;
  const auto extent = entry_at(extents_, last);
  return extent != extents_.end() && extent->first + extent->second.size > address;
}

}  // namespace gpupool::internal
