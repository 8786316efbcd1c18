// SPDX-License-Identifier: Apache-2.0
// A group's budget (docs/sharing.md), for a program that never joined one: it has a place like a member's,
// but no thread that would answer others. All that it has is its guarantee, so that nobody asks it.
#pragma once

#include <atomic>
#include <cstdint>

#include "share/slots.hpp"

namespace gpupool::audit {

namespace share = internal::share;

/// Whether this process keeps to a group's limit. Set before the program begins.
extern bool shares;

/// Of one device; valid as zeros, when it limits nothing. Its account's lock guards what is not const.
class Share {
 public:
  /// The group of this region has the process as a member from now on, with what it has.
  void begin(share::Layout& region, uint32_t slot, uint64_t bytes) noexcept;

  /// The process now has so many bytes. False, and nothing has changed: the group does not have that much
  /// left, or keeps it for one that waits.
  bool change_to(uint64_t bytes) noexcept;
  /// What the driver has taken already, whatever is left.
  void force_to(uint64_t bytes) noexcept;

  // ---- a wait in the group's order; several threads' are one

  void begin_wait(uint64_t bytes, uint64_t until) noexcept;
  void end_wait(uint64_t bytes) noexcept;

  // ---- also without the lock

  /// Null: it is in no group.
  share::Layout* region() const noexcept { return region_.load(std::memory_order_acquire); }
  uint32_t slot() const noexcept { return slot_; }
  /// What all may have, or this process if that is less; UINT64_MAX without a group.
  uint64_t limit() const noexcept;
  /// What the group has left for a process that has `bytes`.
  uint64_t room(uint64_t bytes) const noexcept;
  /// By how much all together have more than the limit.
  uint64_t excess() const noexcept;

 private:
  share::Slot& own(share::Layout& region) const noexcept { return region.slots[slot_]; }
  bool change(share::Layout& region, uint64_t bytes, uint64_t limit) noexcept;
  void show(share::Slot& own, uint64_t bytes) noexcept;

  std::atomic<share::Layout*> region_;
  uint32_t slot_;
  uint32_t waits_;
  uint64_t wanted_;
  uint64_t bytes_;
};

}  // namespace gpupool::audit
