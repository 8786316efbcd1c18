// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory, in which a pool keeps the contents of its blocks while it sleeps.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bits.hpp"
#include "base/no_copy.hpp"
#include "pool/rules/metered_device.hpp"
#include "pool/rules/pool_lock.hpp"

namespace gpupool::internal {

/// One run of bytes, in buffers that never move. Page-locking is slow and holds up others on the machine, so
/// it is done buffer by buffer, by several threads, with the pool's lock given up. Guarded by the pool's
/// lock; only the thread that has the Sleeper's turn changes it.
class Backup : NoCopy {
 public:
  using Lock = PoolLock;

  /// The largest buffer. Drivers and kernels fail at much larger ones.
  static constexpr uint64_t kBuffer = 64 * kMiB;

  explicit Backup(MeteredDevice& device) : device_(device) {}

  /// Allocates until there is room for `bytes`. HOST_OUT_OF_MEMORY if that would take more than three
  /// quarters of what the host has left. On failure, frees again what it has added.
  Status reserve(Lock& lock, uint64_t bytes);
  /// Frees the buffers that lie wholly beyond `bytes`. Stops at one that the driver refuses to free.
  Status shrink(Lock& lock, uint64_t bytes);

  uint64_t capacity() const noexcept { return capacity_; }

  /// Where byte `offset` is, and in `bytes` how many its buffer has from there on.
  Address at(uint64_t offset, uint64_t& bytes) const noexcept;

 private:
  struct Buffer {
    Address address = 0;
    uint64_t size = 0;
    uint64_t offset = 0;  // of its first byte
  };

  class PageLocking;

  Status check_host(uint64_t bytes);
  Status add(Lock& lock, uint64_t bytes);

  MeteredDevice& device_;
  std::vector<Buffer> buffers_;
  uint64_t capacity_ = 0;
};

}  // namespace gpupool::internal
