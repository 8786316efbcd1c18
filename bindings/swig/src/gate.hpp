// SPDX-License-Identifier: Apache-2.0
// What lets an object be closed while other threads are inside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace binding {

/// Counts who is inside. Once it is closed nobody enters any more, and the last one out is told so, exactly
/// once: that one ends what the gate guards. Costs an atomic addition each way.
class Gate {
 public:
  /// What came of a close: somebody else had closed it; nobody was inside; or the last one out is yet to
  /// come.
  enum class Close { kAlready, kEmpty, kLater };

  /// False: it is closed.
  bool enter() noexcept {
    int64_t inside = inside_.load(std::memory_order_relaxed);
    do {
      if (inside < 0) return false;
    } while (!inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
    return true;
  }

  /// One more, for somebody who is inside already, and so may have company after the close as well.
  void enter_again() noexcept { inside_.fetch_add(1, std::memory_order_relaxed); }

  /// True: it is closed, and this was the last one.
  bool leave() noexcept { return inside_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1; }

  Close close() noexcept {
    int64_t inside = inside_.load(std::memory_order_relaxed);
    do {
      if (inside < 0) return Close::kAlready;
    } while (!inside_.compare_exchange_weak(inside, inside + kClosed, std::memory_order_acq_rel,
                                            std::memory_order_relaxed));
    return inside == 0 ? Close::kEmpty : Close::kLater;
  }

  bool is_closed() const noexcept { return inside_.load(std::memory_order_acquire) < 0; }

 private:
  static constexpr int64_t kClosed = std::numeric_limits<int64_t>::min();

  std::atomic<int64_t> inside_{0};
};

/// Somebody inside a T, for the time of a call. T::enter() throws when it is closed.
template <class T>
class Inside {
 public:
  explicit Inside(T& thing) : thing_(thing) { thing_.enter(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { thing_.leave(); }

 private:
  T& thing_;
};

}  // namespace binding
