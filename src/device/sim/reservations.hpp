// SPDX-License-Identifier: Apache-2.0
// The addresses that a simulated device has reserved.
#pragma once

#include <cstdint>
#include <map>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "device/sim/backing.hpp"
#include "device/sim/clock.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held.
class SimReservations : NoCopy {
 public:
  SimReservations(SimBacking& backing, SimFaults& faults) noexcept : backing_(backing), faults_(faults) {}
  ~SimReservations();

  Status reserve(uint64_t size, Address& base);
  /// Refuses to release what is not one whole reservation.
  Status check_release(Address base, uint64_t size);
  /// Call it after check_release(), once nothing is mapped there.
  void release(Address base) noexcept;

  /// Whether all of these addresses are in one reservation.
  bool has(Address address, uint64_t size) const;
  /// Whether one of them is in any, up to `last`.
  bool has_any(Address address, Address last) const;

 private:
  using Sizes = std::map<Address, uint64_t>;

  SimBacking& backing_;
  SimFaults& faults_;
  Sizes sizes_;
  uint64_t reserved_ = 0;
};

}  // namespace gpupool::internal
