// SPDX-License-Identifier: Apache-2.0
// Which addresses of a simulated device are asleep in which pool, for messages about them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "device/device.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held.
class SimSleepers {
 public:
  /// What the pool says: see Device::name_asleep.
  void name(Address address, uint64_t size, const char* pool) noexcept;
  /// ", which is asleep in pool 'NAME'" if any of these addresses was named so; else nothing.
  std::string name_of(Address address, uint64_t size) const;

 private:
  struct Sleeper {
    uint64_t size = 0;
    std::string pool;
  };

  std::map<Address, Sleeper> sleepers_;
};

}  // namespace gpupool::internal
