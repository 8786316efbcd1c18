// SPDX-License-Identifier: Apache-2.0
// Other devices that may access a pool's memory. A pool and its children share a device, and so its peers.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

class Backing;
class Imports;
class Pool;
class Protections;
struct Rooms;

/// Guarded by the pool's lock.
class Peers {
 public:
  Peers(const Rooms& rooms, Backing& backing, Protections& protections, Imports& imports) noexcept
      : rooms_(rooms), backing_(backing), protections_(protections), imports_(imports) {}

  /// Gives the device's peers of now access to all that is mapped.
  Status set_access();

 private:
  const Rooms& rooms_;
  Backing& backing_;
  Protections& protections_;
  Imports& imports_;
};

/// Lets a device access the memory of a pool, and of those that share its device. Call it with no lock held.
/// Throws std::bad_alloc.
Status enable_peer(Pool& pool, int32_t peer);

}  // namespace gpupool::internal
