// SPDX-License-Identifier: Apache-2.0
// Page-locked memory of the host in which a pool keeps what was in its blocks while it sleeps.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/bits.hpp"
#include "pool/metered_device.hpp"
#include "pool/quiet_lock.hpp"

namespace gpupool::internal {

/// One run of bytes, in pieces that never move. Page-locking is slow and holds up others on the machine, so
/// it is done a piece at a time, with the pool's lock given up. One thread at a time changes it (Sleeper's
/// turn); the rest is guarded by the pool's lock.
class Backup {
 public:
  using Lock = QuietLock;

  /// No single piece is larger: drivers and kernels fail at large ones.
  static constexpr uint64_t kPiece = 256 * kMiB;

  explicit Backup(MeteredDevice& device) : device_(device) {}
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  /// Gets memory until it has room for `bytes`. HOST_OUT_OF_MEMORY where more than three quarters of what the
  /// host has left would be taken. On failure it is as before.
  Status reserve(Lock& lock, uint64_t bytes);
  /// Frees whole pieces that lie beyond `bytes`. What the driver does not take stays.
  Status shrink(Lock& lock, uint64_t bytes);

  uint64_t capacity() const noexcept { return capacity_; }

  /// Where byte `offset` is, and how many follow it in one piece.
  Address at(uint64_t offset, uint64_t& bytes) const noexcept;

 private:
  struct Piece {
    Address address = 0;
    uint64_t size = 0;
    uint64_t offset = 0;  // of its first byte
  };

  Status check_host(uint64_t bytes);
  Status add(Lock& lock, uint64_t bytes);

  MeteredDevice& device_;
  std::vector<Piece> pieces_;
  uint64_t capacity_ = 0;
};

}  // namespace gpupool::internal
