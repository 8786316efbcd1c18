// SPDX-License-Identifier: Apache-2.0
// Allows an object to be closed while other threads are inside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace binding {

/// Counts the calls inside. Once it is closed, no call can enter. Exactly one call, the last to leave, is
/// told so, and ends the guarded object. Costs an atomic addition each way.
class Gate {
 public:
  /// The result of a close: it was already closed; no call was inside; or the last one has yet to leave.
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

  /// As enter(), for a caller that is already inside: it succeeds even after the close.
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

/// Keeps a caller inside a T for the time of a call. T::enter() throws if it is closed.
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
