// SPDX-License-Identifier: Apache-2.0
// The limit on reserved memory, of a pool or of a pool and its children.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/spin_lock.hpp"

namespace gpupool::internal {

/// Bytes are taken before memory is created and put back after it is released, so that what is reserved is
/// never above the limit, by not a byte and in no race.
class Limit {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  /// False, and nothing taken, if `bytes` would go over the limit.
  bool take(uint64_t bytes) noexcept {
    const SpinGuard lock(lock_);
    if (bytes > room()) return false;
    used_.store(used() + bytes, std::memory_order_release);
    return true;
  }

  void put(uint64_t bytes) noexcept {
    const SpinGuard lock(lock_);
    used_.store(used() - bytes, std::memory_order_release);
  }

  /// Sets the limit; false, and nothing changed, if more than that is used.
  bool set(uint64_t limit) noexcept {
    const SpinGuard lock(lock_);
    if (used() > limit) return false;
    limit_.store(limit, std::memory_order_release);
    return true;
  }

  // These take no lock.

  uint64_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  uint64_t get() const noexcept { return limit_.load(std::memory_order_relaxed); }
  uint64_t room() const noexcept {
    const uint64_t now = used();
    const uint64_t most = get();
    return now < most ? most - now : 0;
  }

 private:
  SpinLock lock_;  // for changes: the limit and what is used must be looked at together
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> limit_{kNone};
};

/// A pool's part of what is used of a limit, which pools may share.
class Budget {
 public:
  static constexpr uint64_t kNone = Limit::kNone;

  Budget() : Budget(std::make_shared<Limit>()) {}
  explicit Budget(std::shared_ptr<Limit> shared) noexcept : shared_(std::move(shared)) {}

  bool take(uint64_t bytes) noexcept {
    if (!shared_->take(bytes)) return false;
    used_.fetch_add(bytes, std::memory_order_release);
    return true;
  }

  void put(uint64_t bytes) noexcept {
    used_.fetch_sub(bytes, std::memory_order_release);
    shared_->put(bytes);
  }

  bool set_limit(uint64_t limit) noexcept { return shared_->set(limit); }

  uint64_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  uint64_t limit() const noexcept { return shared_->get(); }
  uint64_t room() const noexcept { return shared_->room(); }
  const std::shared_ptr<Limit>& shared() const noexcept { return shared_; }

  /// What others have used of the limit; of a moment that may have passed.
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
