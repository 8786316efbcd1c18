// SPDX-License-Identifier: Apache-2.0
// What this process has of each device, to the byte, and the cap that it is held to.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "frameworks/audit/share.hpp"
#include "frameworks/audit/table.hpp"
#include "frameworks/audit/types.hpp"

namespace gpupool::audit {

/// Bytes of each device; UINT64_MAX: none. Set before the program begins.
extern uint64_t cap;
inline bool is_limited() noexcept {
  return cap != UINT64_MAX || shares;
}

/// Managed memory may lie in the host's, so it is counted but not capped.
enum class Kind : uint8_t { memory, pool, chunk, array, managed };
inline constexpr size_t kKinds = 5;
inline constexpr std::array<const char*, kKinds> kKindNames = {"memory", "pools", "chunks", "arrays",
                                                               "managed"};

/// Of one device. Any thread may call; all takes together never exceed the cap, not even for a moment, nor
/// the group's limit with those of its members.
class Account {
 public:
  /// Before the driver is asked. False: it is more than the cap or the group leaves, and nothing has changed.
  bool take(uint64_t bytes) noexcept;
  /// What the driver has taken already.
  void force(uint64_t bytes) noexcept;
  /// After the driver has it back, or has refused.
  void give(uint64_t bytes) noexcept {
    if (shares) [[unlikely]]
      return change_shared(-static_cast<int64_t>(bytes));
    used_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  /// What was taken, once the driver has given it.
  void count(Kind kind, uint64_t bytes) noexcept {
    given_[static_cast<size_t>(kind)].fetch_add(bytes, std::memory_order_relaxed);
    raise_peak(used());
  }
  /// Managed memory, of which the device may have any part.
  void take_managed(uint64_t bytes) noexcept { managed_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_managed(uint64_t bytes) noexcept { managed_.fetch_sub(bytes, std::memory_order_relaxed); }
  void count_refusal() noexcept { refusals_.fetch_add(1, std::memory_order_relaxed); }

  /// Pools and graphs have taken more than was asked of them, or the group's limit was lowered.
  bool is_beyond_cap() const noexcept { return used() > cap || share_.excess() != 0; }
  uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  uint64_t managed() const noexcept { return managed_.load(std::memory_order_relaxed); }
  /// What the cap and the group leave; UINT64_MAX without either.
  uint64_t room() const noexcept;
  /// The lower one of both.
  uint64_t limit() const noexcept { return share_.limit() < cap ? share_.limit() : cap; }
  uint64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  uint64_t refusals() const noexcept { return refusals_.load(std::memory_order_relaxed); }
  /// All that the driver has ever given.
  uint64_t given(size_t kind) const noexcept { return given_[kind].load(std::memory_order_relaxed); }

  const Share& share() const noexcept { return share_; }
  void begin_share(share::Layout& region, uint32_t slot) noexcept {
    with_share([&](Share& share) { share.begin(region, slot, used()); });
  }
  template <typename Function>
  void with_share(Function function) noexcept {
    const std::lock_guard lock(share_lock_);
    function(share_);
  }

 private:
  void raise_peak(uint64_t used) noexcept;
  bool take_shared(uint64_t bytes) noexcept;
  void change_shared(int64_t bytes) noexcept;

  std::atomic<uint64_t> used_;
  std::atomic<uint64_t> peak_;
  std::atomic<uint64_t> refusals_;
  std::atomic<uint64_t> managed_;
  std::array<std::atomic<uint64_t>, kKinds> given_;
  SpinLock share_lock_;  // of the share, and of all changes while there is one
  Share share_;
};

/// One of the driver's pools, or a device's memory for graphs. It takes more than is asked of it and keeps
/// it, so what it holds is charged: the larger one of what has been asked of it and of what it says. What it
/// keeps unused is charged, and serves no other.
class Pooled {
 public:
  /// Before the driver is asked; `land` comes after, whether it has given or not. Beyond the cap, not even
  /// what it holds is given out, since the driver may have it grow all the same.
  bool take(Account& account, uint64_t bytes) noexcept;
  void land(Account& account) noexcept;
  void give(Account& account, uint64_t bytes) noexcept;
  /// `held`: what it has had since changes() was called. Less is not believed if an allocation has been under
  /// way meanwhile, for which it may have grown.
  void settle(Account& account, uint64_t held, uint64_t changes) noexcept;
  uint64_t changes() noexcept;
  bool has_slack() noexcept;

  /// For a new pool. False: it is in use, or memory of a destroyed one is still out.
  bool begin() noexcept;
  /// It is destroyed: the driver has the rest back when it has the last of its memory.
  void end(Account& account) noexcept;

 private:
  void end_if_unused(Account& account) noexcept;

  SpinLock lock_;
  uint64_t live_;
  uint64_t charged_;
  uint64_t changes_;
  uint64_t under_way_;
  enum class State : uint8_t { none, there, destroyed } state_;
};

}  // namespace gpupool::audit
