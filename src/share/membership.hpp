// SPDX-License-Identifier: Apache-2.0
// A process's place in the region of a group, and what it is charged there.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/no_copy.hpp"
#include "base/spin_lock.hpp"
#include "os/mutex.hpp"
#include "share/broker.hpp"
#include "share/slots.hpp"

namespace gpupool::internal::share {

inline constexpr int32_t kLeastPriority = -8;
inline constexpr int32_t kMostPriority = 8;

/// Guards the list of this process's members. Held around fork, and while descriptors of regions are open: a
/// child that inherited one would count as a living member.
extern constinit os::Mutex members_mutex;

/// All functions may be called from any thread. In a child after fork they do nothing, because it is not a
/// member.
class Membership : NoCopy {
 public:
  explicit Membership(const Place& place) : place_(place) {}

  /// `free`: what the device has free; ~0 if unknown. UNAVAILABLE, with the reason.
  Status enter(uint64_t free, BrokerCall& call);
  /// Puts everything back. No other call may be under way.
  void leave() noexcept;
  /// In a child after fork.
  void forget() noexcept;

  bool is_member() const noexcept { return layout() != nullptr; }
  const Place& place() const noexcept { return place_; }
  uint32_t slot() const noexcept { return slot_; }
  Layout* layout() const noexcept { return layout_.load(std::memory_order_relaxed); }
  Header& header() const noexcept { return layout()->header; }
  Slot& own() const noexcept { return layout()->slots[slot_]; }
  /// Opens the region again, for locks of its own.
  Status open_again(File& file) const;

  /// False, and nothing taken, if that would exceed the group's limit or this member's, or would take memory
  /// for which another member waits whose turn it is. A charge within the guarantee is never refused.
  bool charge(uint64_t bytes) noexcept;
  void refund(uint64_t bytes) noexcept;
  /// How much charge() would grant now.
  uint64_t room() const noexcept;
  /// How many charges were granted so far.
  uint64_t charges() noexcept;
  /// What is reserved beyond the guarantee.
  uint64_t spare() noexcept;
  /// How many bytes are reserved beyond an equal share of the group's, as a part of that share.
  double beyond_share() const noexcept { return share::beyond_share(*layout(), slot_); }

  /// Adds to the guarantee, or takes from it. OVER_LIMIT, and nothing changed: the group does not have that
  /// much left.
  Status change_guarantee(int64_t bytes);
  /// False, and nothing changed, for the same reason.
  bool set_guarantee(uint64_t bytes) noexcept;
  /// The highest priority that any pool of the process asked for.
  void raise_priority(int32_t priority) noexcept;
  /// Tells the neighbours how much the process has live.
  void note_live(uint64_t bytes) noexcept { own().live.store(bytes, std::memory_order_relaxed); }
  /// One more or fewer pool may be put to sleep.
  void count_sleepers(int32_t more) noexcept;

  /// The group's limit, or this member's own if that is lower.
  uint64_t limit() const noexcept;
  /// What all members of the group are charged.
  uint64_t used_by_all() const noexcept;

 private:
  Status lock_free_slot(const File& file, Layout& layout, uint64_t free);
  bool recharge(uint64_t reserved, uint64_t guaranteed, bool waits_in_turn) noexcept;

  const Place place_;
  Anchor anchor_;  // only of a broker's group
  std::atomic<Layout*> layout_{nullptr};
  uint32_t slot_ = 0;

  SpinLock lock_;  // one thread at a time uses the owner's side of the account; guards what follows
  uint64_t reserved_ = 0;
  uint64_t guaranteed_ = 0;
  uint64_t charged_ = 0;  // units: the larger of the two
  uint64_t charges_ = 0;
};

}  // namespace gpupool::internal::share
