// SPDX-License-Identifier: Apache-2.0
// Others of this process that may have what a pool is short of.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

class PoolLock;
struct PoolState;

/// How often one that is short has pools put to sleep. Once is enough, unless others take what comes.
inline constexpr uint32_t kMostSleeps = 16;

/// With the lock of the pool that is short, which they give up, since pools' locks have no order among them.
class Helpers {
 public:
  virtual ~Helpers() = default;

  /// Empties the pools on the same device, which may be keeping what this one needs. Children keep what they
  /// have. Throws std::bad_alloc.
  virtual void empty(PoolLock& lock, PoolState& pool) = 0;
  /// Has a child's parent release what it has cached under the limit that they share. The children themselves
  /// keep what they have. False if there is no parent, or if it released nothing.
  virtual bool ask_parent(PoolLock& lock, PoolState& pool, uint64_t bytes) = 0;
  /// Puts pools to sleep that may be, until there is room for `bytes`: where the device was short, those on
  /// the same one; where the limit was, those under the same. False if nothing came, and no other request has
  /// had one of them put to sleep for more than it needed itself. Throws std::bad_alloc.
  virtual bool put_to_sleep(PoolLock& lock, PoolState& pool, uint64_t bytes, Status shortage) = 0;
};

}  // namespace gpupool::internal
