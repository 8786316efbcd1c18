// SPDX-License-Identifier: Apache-2.0
// Looks of a debug mode that a stream has yet to be given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "pool/metered_device.hpp"

namespace gpupool::internal {

/// Queueing anything costs a few microseconds, so looks wait until something has to be queued anyway: the
/// fill of the next malloc on the stream. Until then only that stream can get the memory, because the
/// stream's order queues them before it lets anybody ask how far the stream is. Guarded by the pool's lock.
class DeferredLooks {
 public:
  /// Counts in `skipped` the looks that could not be queued.
  DeferredLooks(MeteredDevice& device, Address report, uint64_t& skipped)
      : device_(device), report_(report), skipped_(skipped) {}

  bool is_full() const noexcept { return count_ == looks_.size(); }
  /// Needs a place.
  void add(const Look& look) noexcept { looks_[count_++] = look; }

  /// Queues all looks, and behind them a fill. The stream must not capture.
  Status queue(const Fill& fill, Stream stream) noexcept {
    const size_t count = std::exchange(count_, 0);
    if (count == 0 && fill.size == 0) return kSuccess;
    const Status status = device_.inspect(std::span(looks_).first(count), fill, report_, stream);
    if (status != kSuccess) skipped_ += count;
    return status;
  }
  /// Leaves them out, since the stream captures.
  void drop() noexcept { skipped_ += std::exchange(count_, 0); }

 private:
  MeteredDevice& device_;
  const Address report_;
  uint64_t& skipped_;
  std::array<Look, kLooksAtOnce> looks_;
  size_t count_ = 0;
};

}  // namespace gpupool::internal
