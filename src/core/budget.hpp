// SPDX-License-Identifier: Apache-2.0
// The limit on reserved memory, of a pool or of a pool and its children.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/no_copy.hpp"
#include "base/spin_lock.hpp"

namespace gpupool::internal {

/// A budget that other processes are charged to as well.
class Commons : NoCopy {
 public:
  Commons() = default;
  virtual ~Commons() = default;

  /// False, and nothing charged, if there is no room.
  virtual bool charge(uint64_t bytes) noexcept = 0;
  virtual void refund(uint64_t bytes) noexcept = 0;
  virtual uint64_t room() const noexcept = 0;
  virtual uint64_t limit() const noexcept = 0;
};

/// What bounds a pool from outside of the program, and who says so, in words that live for ever.
struct Ceiling {
  uint64_t bytes = ~uint64_t{0};
  const char* name = nullptr;
};

/// Bytes are charged before memory is created and refunded after it is released, so reserved memory never
/// exceeds the limit, even when threads race.
class Limit {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  /// From now on, all charges also go to these commons. Call it before the first charge.
  void join(std::unique_ptr<Commons> commons) noexcept { commons_ = std::move(commons); }

  /// False, and nothing charged, if `bytes` would go over the limit.
  bool charge(uint64_t bytes) noexcept {
    {
      const SpinGuard lock(lock_);
      if (bytes > own_room()) return false;
      used_.store(used() + bytes, std::memory_order_release);
    }
    if (commons_ == nullptr || commons_->charge(bytes)) return true;
    refund_own(bytes);
    return false;
  }

  void refund(uint64_t bytes) noexcept {
    if (commons_ != nullptr) commons_->refund(bytes);
    refund_own(bytes);
  }

  /// Sets the limit to what the owner asks for, up to the ceiling; false, and nothing changed, if more than
  /// that is used.
  bool set(uint64_t asked, const Ceiling& ceiling = {}) noexcept {
    const SpinGuard lock(lock_);
    const bool is_bound = ceiling.bytes < asked;
    const uint64_t limit = is_bound ? ceiling.bytes : asked;
    if (used() > limit) return false;
    asked_.store(asked, std::memory_order_relaxed);
    bound_by_.store(is_bound ? ceiling.name : nullptr, std::memory_order_relaxed);
    limit_.store(limit, std::memory_order_release);
    return true;
  }

  // These take no lock.

  uint64_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  /// What the owner asked for; kNone: nothing.
  uint64_t asked() const noexcept { return asked_.load(std::memory_order_relaxed); }
  /// Whose ceiling holds instead of that; nullptr: nobody's.
  const char* bound_by() const noexcept { return bound_by_.load(std::memory_order_relaxed); }
  /// The limit, and what is left of it, regardless of the commons.
  uint64_t own() const noexcept { return limit_.load(std::memory_order_relaxed); }
  uint64_t own_room() const noexcept {
    const uint64_t now = used();
    const uint64_t most = own();
    return now < most ? most - now : 0;
  }
  bool is_common() const noexcept { return commons_ != nullptr; }
  uint64_t get() const noexcept { return commons_ == nullptr ? own() : std::min(own(), commons_->limit()); }
  uint64_t room() const noexcept {
    return commons_ == nullptr ? own_room() : std::min(own_room(), commons_->room());
  }

 private:
  void refund_own(uint64_t bytes) noexcept {
    const SpinGuard lock(lock_);
    used_.store(used() - bytes, std::memory_order_release);
  }

  std::unique_ptr<Commons> commons_;
  SpinLock lock_;  // for changes, which must see the limit and the used bytes together
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> limit_{kNone};
  std::atomic<uint64_t> asked_{kNone};
  std::atomic<const char*> bound_by_{nullptr};
};

/// One pool's use of a limit, which several pools may share.
class Budget {
 public:
  static constexpr uint64_t kNone = Limit::kNone;

  Budget() : Budget(std::make_shared<Limit>()) {}
  explicit Budget(std::shared_ptr<Limit> shared) noexcept : shared_(std::move(shared)) {}

  bool charge(uint64_t bytes) noexcept {
    if (!shared_->charge(bytes)) return false;
    used_.fetch_add(bytes, std::memory_order_release);
    return true;
  }

  void refund(uint64_t bytes) noexcept {
    used_.fetch_sub(bytes, std::memory_order_release);
    shared_->refund(bytes);
  }

  bool set_limit(uint64_t asked, const Ceiling& ceiling = {}) noexcept {
    return shared_->set(asked, ceiling);
  }

  uint64_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  uint64_t limit() const noexcept { return shared_->get(); }
  uint64_t room() const noexcept { return shared_->room(); }
  uint64_t asked_limit() const noexcept { return shared_->asked(); }
  const char* bound_by() const noexcept { return shared_->bound_by(); }
  /// Whether other processes are charged to the limit as well.
  bool is_common() const noexcept { return shared_->is_common(); }
  uint64_t own_limit() const noexcept { return shared_->own(); }
  uint64_t own_room() const noexcept { return shared_->own_room(); }
  const std::shared_ptr<Limit>& shared() const noexcept { return shared_; }

  /// What others have used of the limit; may be out of date.
  uint64_t used_by_others() const noexcept {
    const uint64_t own = used();
    const uint64_t all = shared_->used();
    return all > own ? all - own : 0;
  }

 private:
  std::shared_ptr<Limit> shared_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace gpupool::internal
