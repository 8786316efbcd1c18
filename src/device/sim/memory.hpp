// SPDX-License-Identifier: Apache-2.0
// Memory of a simulated device: mappings of chunks at reserved addresses, and blocks of the driver's own
// malloc. A call that breaks a rule is refused, counted as a fault, and changes nothing. Neither does a call
// that throws std::bad_alloc: it creates entries before it changes anything.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "device/sim/access.hpp"
#include "device/sim/backing.hpp"
#include "device/sim/capacity.hpp"
#include "device/sim/chunks.hpp"
#include "device/sim/clock.hpp"
#include "device/sim/closed_memory.hpp"
#include "device/sim/devices.hpp"
#include "device/sim/reservations.hpp"
#include "device/sim/sleepers.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held.
class SimMemory : NoCopy {
 public:
  /// Addresses backed by physical memory: a mapping, or a block of the driver's malloc.
  struct Extent {
    uint64_t size = 0;
    uint64_t offset = 0;    // of the physical memory
    ChunkHandle chunk = 0;  // 0: a block of the driver's malloc
    Kind kind = Kind::device;
    SimDeviceSet accessors = 0;  // devices whose kernels may touch it
    bool is_read_only = false;   // or may read it
    SimTimes used_until{};       // when each device's last work on it through these addresses ends
  };

  /// A part of one extent.
  struct ExtentPart {
    Extent* extent = nullptr;
    uint64_t offset = 0;  // of the physical memory
    uint64_t size = 0;
  };

  SimMemory(int32_t ordinal, const SimSettings& settings, std::unique_ptr<SimBacking> backing,
            SimFaults& faults)
      : ordinal_(ordinal),
        allocation_accessors_(sim_device_set(ordinal)),
        faults_(faults),
        backing_(std::move(backing)),
        closed_(backing_->has_data()),
        capacity_(settings),
        chunks_(*backing_, capacity_, faults),
        reservations_(*backing_, faults) {}
  ~SimMemory();

  SimBacking& backing() noexcept { return *backing_; }
  SimAccesses& accesses() noexcept { return accesses_; }
  ClosedMemory& closed() noexcept { return closed_; }
  SimSleepers& sleepers() noexcept { return sleepers_; }
  SimCapacity& capacity() noexcept { return capacity_; }
  SimChunks& chunks() noexcept { return chunks_; }

  Status reserve_addresses(uint64_t size, Address& base) { return reservations_.reserve(size, base); }
  Status release_addresses(Address base, uint64_t size);
  Status map(Address address, uint64_t size, ChunkHandle chunk);
  Status set_access(Address address, uint64_t size, SimDeviceSet accessors) {
    return protect(address, size, Permission::write, accessors);
  }
  /// What those devices may do from now on; others may do nothing.
  Status protect(Address address, uint64_t size, Permission access, SimDeviceSet accessors);
  /// A fault if a device's work that uses these addresses ends after that device's `now`.
  Status unmap(Address address, uint64_t size, const SimTimes& now);
  /// Keeps the physical memory mapped at an address; 0: keeps none any more.
  Status hold(Address address);

  Status allocate(Kind kind, uint64_t size, Address& address);
  /// The caller waits for this device's work; a fault if another device's ends after its `now`.
  Status deallocate(Kind kind, Address address, uint64_t size, const SimTimes& now);
  /// Adds devices that may touch memory from allocate(), past and future.
  void share_allocations(SimDeviceSet accessors) noexcept;
  /// A device is recreated: none of its work uses anything any more.
  void forget_work_of(int32_t ordinal) noexcept;

  // Around fork, with the device's lock held: mapped memory becomes a copy in the child.

  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

  /// Calls visit(size) for each mapping that begins in [address, address + size).
  template <class Visit>
  void for_each_mapping(Address address, uint64_t size, Visit&& visit) const {
    auto it = extents_.lower_bound(address);
    for (; it != extents_.end() && it->first - address < size; ++it) visit(it->second.size);
  }

  /// The extents behind [address, address + size); false if not every byte is mapped and usable.
  bool resolve(Address address, uint64_t size, std::vector<ExtentPart>& parts);
  bool is_pinned(Address address) const;
  /// Whether any of these addresses belongs to this device, mapped or not.
  bool has_any_of(Address address, uint64_t size) const;

 private:
  using Extents = std::map<Address, Extent>;

  Extents::const_iterator extent_with(Address address) const;
  Status check_whole_mappings(const char* call, Address address, uint64_t size);
  Status check_idle(const char* call, Address address, const Extent& extent, SimDeviceSet devices,
                    const SimTimes& now);
  Status back(uint64_t size, Extent& extent, Address& address);

  int32_t ordinal_;
  SimDeviceSet allocation_accessors_;
  SimFaults& faults_;
  std::unique_ptr<SimBacking> backing_;
  ClosedMemory closed_;
  SimAccesses accesses_;
  SimSleepers sleepers_;
  SimCapacity capacity_;
  SimChunks chunks_;
  SimReservations reservations_;
  Extents extents_;
};

}  // namespace gpupool::internal
