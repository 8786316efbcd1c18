// SPDX-License-Identifier: Apache-2.0
// Memory of a simulated device: reserved addresses, chunks, mappings, and blocks of the driver's own malloc.
// A call that breaks a rule is refused, counted as a fault, and changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "device/sim_access.hpp"
#include "device/sim_backing.hpp"
#include "device/sim_clock.hpp"

namespace gpupool {

inline constexpr uint64_t kSimGranularity = 2 * kMiB;

/// Not thread-safe: the device's lock is held.
class SimMemory {
 public:
  /// Addresses backed by physical memory: a mapping, or a block of the driver's malloc.
  struct Extent {
    uint64_t size = 0;
    uint64_t offset = 0;    // of the physical memory
    ChunkHandle chunk = 0;  // 0: a block of the driver's malloc
    Kind kind = Kind::device;
    uint64_t accessors = 0;   // devices that may touch it, as bits
    uint64_t used_until = 0;  // when the last work that touches it through these addresses ends
  };

  /// A part of one extent.
  struct Piece {
    Extent* extent = nullptr;
    uint64_t offset = 0;  // of the physical memory
    uint64_t size = 0;
  };

  SimMemory(uint64_t capacity, std::unique_ptr<SimBacking> backing, SimFaults& faults)
      : capacity_(capacity), backing_(std::move(backing)), faults_(faults) {}
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;
  ~SimMemory();

  uint64_t free() const noexcept { return capacity_ - used_; }
  SimBacking& backing() noexcept { return *backing_; }
  SimAccesses& accesses() noexcept { return accesses_; }

  Status reserve_addresses(uint64_t size, Address& base);
  Status release_addresses(Address base, uint64_t size);
  Status create_chunk(uint64_t size, ChunkHandle& chunk);
  Status release_chunk(ChunkHandle chunk);
  Status map(Address address, uint64_t size, ChunkHandle chunk);
  Status set_access(Address address, uint64_t size, uint64_t accessors);
  /// A fault where work that uses these addresses ends after `now`.
  Status unmap(Address address, uint64_t size, uint64_t now);

  Status allocate(Kind kind, uint64_t size, Address& address);
  Status deallocate(Kind kind, Address address, uint64_t size);
  /// Adds devices that may touch what allocate() gives, past and future.
  void share_allocations(uint64_t accessors) noexcept;

  /// The size of a chunk by its handle; 0 for none.
  uint64_t chunk_size(ChunkHandle chunk) const;
  /// Calls visit(size) for each mapping that begins in [address, address + size).
  template <class Visit>
  void for_each_mapping(Address address, uint64_t size, Visit&& visit) const {
    auto it = extents_.lower_bound(address);
    for (; it != extents_.end() && it->first - address < size; ++it) visit(it->second.size);
  }

  /// The extents behind [address, address + size); false if not every byte can be used.
  bool resolve(Address address, uint64_t size, std::vector<Piece>& pieces);
  /// Whether the device knows nothing of these addresses, so that they can be memory of the host.
  bool is_foreign(Address address, uint64_t size) const;

 private:
  struct Chunk {
    uint64_t size = 0;
    uint64_t offset = 0;
    uint64_t mappings = 0;
    bool released = false;
  };
  using Extents = std::map<Address, Extent>;
  using Chunks = std::unordered_map<ChunkHandle, Chunk>;

  bool is_reserved(Address address, uint64_t size) const;
  Status take(uint64_t size);
  Status check_whole_mappings(const char* call, Address address, uint64_t size);
  void give_back_if_unused(Chunks::iterator chunk);
  Status back(uint64_t size, Extent& extent, Address& address);

  uint64_t capacity_;
  std::unique_ptr<SimBacking> backing_;
  SimFaults& faults_;
  SimAccesses accesses_;
  uint64_t allocation_accessors_ = 0;
  uint64_t used_ = 0;
  uint64_t reserved_ = 0;
  ChunkHandle next_chunk_ = 1;
  std::map<Address, uint64_t> reservations_;
  Extents extents_;
  Chunks chunks_;
};

}  // namespace gpupool
