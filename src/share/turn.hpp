// SPDX-License-Identifier: Apache-2.0
// Asking the neighbours for memory: which ones, in which order, for how long.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>

#include "base/no_copy.hpp"
#include "base/spin_lock.hpp"
#include "share/membership.hpp"
#include "share/owner.hpp"

namespace gpupool::internal::share {

/// The turns of one member's threads: the group sees one that waits for what all of them want.
class Turns : NoCopy {
 public:
  Turns(Membership& membership, Owner& owner) noexcept : membership_(membership), owner_(owner) {}

  /// Bytes that were obtained by asking neighbours.
  uint64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

 private:
  friend class Turn;
  using Slots = std::bitset<kSlots>;
  struct Round {
    uint32_t candidates = 0;  // members that could give something
    bool is_over = true;      // all of them were asked and have answered
  };
  enum class For : uint32_t { cached, sleep };

  void begin(uint64_t bytes, uint64_t until) noexcept;
  void end(uint64_t bytes) noexcept;
  bool sweep() noexcept;
  uint64_t missing(uint64_t bytes) noexcept;
  Round ask(uint64_t bytes, uint64_t until, For what, Slots& asked) noexcept;
  uint64_t ahead(uint64_t now) noexcept;
  void note_growth(uint64_t bytes) noexcept;
  void count_taken(uint64_t bytes) noexcept;
  bool others_wait() const noexcept;
  bool may_ever_have(uint64_t bytes) const noexcept;
  bool put_own_to_sleep(uint64_t bytes, uint64_t asker) noexcept;

  Membership& membership_;
  Owner& owner_;
  SpinLock lock_;  // guards up to asked_at_
  uint32_t waiting_ = 0;
  uint64_t wanted_ = 0;
  uint64_t grown_ = 0;     // by asking, since the member began to grow
  uint64_t asked_at_ = 0;  // when it last got what it asked for
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> swept_at_{0};
  std::atomic<bool> limbo_{false};  // dead members' memory was still to come
};

/// Waits for memory in fair order: by priority, then by arrival. While it lives, free memory is kept for it.
class Turn : NoCopy {
 public:
  /// `asker`: a pool that does not sleep for it; 0: none.
  Turn(Turns& turns, uint64_t bytes, uint64_t nanoseconds, uint64_t asker = 0) noexcept;
  ~Turn() { turns_.end(bytes_); }

  /// Asks the neighbours until the group and the device have what this member wants. False: the time is up,
  /// the call gives up, or there is nobody to ask. Call it without a lock.
  bool wait() noexcept;

 private:
  Turns& turns_;
  uint64_t bytes_;
  uint64_t until_;
  uint64_t asker_;
};

}  // namespace gpupool::internal::share
