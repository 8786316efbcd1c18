// SPDX-License-Identifier: Apache-2.0
// A process's place in a group: its charges and refunds, and what it and its neighbours ask of each other.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/no_copy.hpp"
#include "base/spin_lock.hpp"
#include "os/thread.hpp"
#include "share/broker.hpp"
#include "share/slots.hpp"

namespace gpupool::internal::share {

inline constexpr int32_t kLeastPriority = -8;
inline constexpr int32_t kMostPriority = 8;

using Slots = std::bitset<kSlots>;

/// What a member asks of its own process. Called with no lock held, also from the listener's thread.
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

/// All functions may be called from any thread. In a child after fork they do nothing, because it is not a
/// member.
class Member : public std::enable_shared_from_this<Member>, NoCopy {
 public:
  Member(std::unique_ptr<Owner> owner, const Place& place) : owner_(std::move(owner)), place_(place) {}
  /// Leaves: puts everything back.
  ~Member();

  /// False, and nothing taken, if that would exceed the group's limit or this member's, or would take memory
  /// for which another member waits whose turn it is. A charge within the guarantee is never refused.
  bool charge(uint64_t bytes) noexcept;
  void refund(uint64_t bytes) noexcept;
  /// How much charge() would grant now.
  uint64_t room() const noexcept;

  /// Changes the member's guarantee. OVER_LIMIT, and nothing changed: the group does not have that much left.
  Status change_guarantee(int64_t bytes);
  /// The highest priority that any pool of the process asked for.
  void raise_priority(int32_t priority) noexcept;

  /// One more or fewer pool may be put to sleep.
  void count_sleepers(int32_t more) noexcept;

  /// The group's limit, or this member's own if that is lower.
  uint64_t limit() const noexcept;
  /// What all members of the group are charged.
  uint64_t used_by_all() const noexcept;
  bool is_owned_by(const Owner* owner) const noexcept { return owner_.get() == owner; }

  uint32_t slot() const noexcept { return slot_; }
  const Place& place() const noexcept { return place_; }
  uint64_t given() const noexcept { return given_.load(std::memory_order_relaxed); }
  uint64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }
  bool is_member() const noexcept { return layout() != nullptr; }

 private:
  friend class Turn;
  friend Status join(const Place& place, uint64_t free, std::unique_ptr<Owner> owner,
                     std::shared_ptr<Member>& member);
  friend void forget_members() noexcept;

  Layout* layout() const noexcept { return layout_.load(std::memory_order_relaxed); }
  Slot& own() const noexcept { return layout()->slots[slot_]; }
  Status enter(uint64_t free, BrokerCall& call);
  /// Opens the region that it is a member of, for locks of its own.
  Status open_again(File& file) const;
  Status lock_free_slot(const File& file, Layout& layout, uint64_t free);
  bool recharge(uint64_t reserved, uint64_t guaranteed, bool waits_in_turn) noexcept;

  // listener.cpp: what neighbours ask of this member
  Status start_listener();
  void stop_listener() noexcept;
  static void* listen(void* member);
  void serve(Slot& own, uint32_t rung) noexcept;
  void release_asked(Slot& own, uint64_t asked, bool may_sleep) noexcept;
  bool is_needier(const Slot& own) const noexcept;
  void rest(Slot& own, uint32_t rung) noexcept;

  // turn.cpp: what this member asks of its neighbours
  bool sweep() noexcept;
  uint64_t missing(uint64_t bytes) noexcept;
  struct Round {
    uint32_t candidates = 0;  // members that could give something
    bool is_over = true;      // all of them were asked and have answered
  };
  enum class For : uint32_t { cached, sleep };
  Round ask(uint64_t bytes, uint64_t until, For what, Slots& asked) noexcept;
  uint64_t ahead(uint64_t now) noexcept;
  void note_growth(uint64_t bytes) noexcept;
  double beyond_share() const noexcept { return share::beyond_share(*layout(), slot_); }
  bool others_wait() const noexcept;
  void count_taken(uint64_t bytes) noexcept;
  /// Tells the neighbours how much it has live. No lock may be held.
  void note_live() noexcept;

  const std::unique_ptr<Owner> owner_;
  const Place place_;
  Anchor anchor_;  // only of a broker's group
  std::atomic<Layout*> layout_{nullptr};
  uint32_t slot_ = 0;

  SpinLock lock_;  // one thread at a time uses the owner's side of the account; guards everything up to the
                   // listener
  uint64_t reserved_ = 0;
  uint64_t guaranteed_ = 0;
  uint64_t charged_ = 0;  // units: the larger of the two
  uint64_t charges_ = 0;
  uint32_t turns_ = 0;  // threads that wait
  uint64_t wanted_ = 0;
  uint64_t grown_ = 0;     // by asking, since it began to grow
  uint64_t asked_at_ = 0;  // when it last got what it asked for
  std::atomic<uint64_t> given_{0};
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> swept_at_{0};
  std::atomic<bool> limbo_{false};  // dead members' memory was still to come

  // The listener's thread only.
  os::HelperThread listener_;
  bool listens_ = false;
  // The thread holds it too, because the member may end while the thread works.
  const std::shared_ptr<std::atomic<bool>> stops_ = std::make_shared<std::atomic<bool>>(false);
  uint64_t immune_until_ = 0;
  uint64_t charges_then_ = 0;  // when it gave back last
  uint64_t grew_at_ = 0;       // when it was last seen to have taken more
  uint64_t charges_seen_ = 0;
};

/// Waits for memory in fair order: by priority, then by arrival. While it lives, free memory is kept for it.
class Turn : NoCopy {
 public:
  /// `asker`: a pool that does not sleep for it; 0: none.
  Turn(Member& member, uint64_t bytes, uint64_t nanoseconds, uint64_t asker = 0) noexcept;
  ~Turn();

  /// Asks the neighbours until the group and the device have what this member wants. False: the time is up,
  /// the call gives up, or there is nobody to ask. Call it without a lock.
  bool wait() noexcept;

 private:
  bool may_ever_have() const noexcept;
  bool put_own_to_sleep(uint64_t bytes) noexcept;

  Member& member_;
  uint64_t bytes_;
  uint64_t until_;
  uint64_t asker_;
};

/// This process's place in a group: one, whichever pools share it. `free`: what the device has free; ~0 if
/// unknown. UNAVAILABLE, with the reason: the process cannot be a member, and runs alone.
Status join(const Place& place, uint64_t free, std::unique_ptr<Owner> owner, std::shared_ptr<Member>& member);

// Around fork, and while descriptors of regions are open: a child that inherited one would count as a living
// member. The child is a member of no group.

void lock_members() noexcept;
void unlock_members() noexcept;
void forget_members() noexcept;

}  // namespace gpupool::internal::share
