// SPDX-License-Identifier: Apache-2.0
// What a member of a group asks of its own process.
#pragma once

#include <cstdint>

namespace gpupool::internal::share {

/// Called with no lock held, also from the listener's thread.
class Owner {
 public:
  virtual ~Owner() = default;
  /// Gives up to `bytes` of cached memory back to the device, and to the group with refund(). Returns how
  /// much.
  virtual uint64_t release(uint64_t bytes) noexcept = 0;
  /// Puts pools to sleep that may be, but not the one with the number `asker`, until `bytes` have gone back
  /// in the same way. Returns how many have.
  virtual uint64_t put_to_sleep(uint64_t bytes, uint64_t asker) noexcept = 0;
  virtual uint64_t live_bytes() noexcept = 0;
  /// What the device has free now; false if it does not report that.
  virtual bool free_bytes(uint64_t& free) noexcept = 0;
};

}  // namespace gpupool::internal::share
