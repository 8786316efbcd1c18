// SPDX-License-Identifier: Apache-2.0
// Other devices that may access a pool's memory. A pool and its children share a device, and so its peers.
#pragma once

#include "base/status.hpp"

namespace gpupool::internal {

class Imports;
class Protections;
struct PoolState;

/// Guarded by the pool's lock.
class Peers {
 public:
  Peers(PoolState& pool, Protections& protections, Imports& imports) noexcept
      : pool_(pool), protections_(protections), imports_(imports) {}

  /// Gives the device's peers of now access to all that is mapped.
  Status set_access();

 private:
  PoolState& pool_;
  Protections& protections_;
  Imports& imports_;
};

}  // namespace gpupool::internal
