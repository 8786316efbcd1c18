// SPDX-License-Identifier: Apache-2.0
// The pool's lock: sends log lines only after it is given up, shows other processes what has changed, and
// lets long work give way to threads that wait.
#pragma once

#include <atomic>
#include <mutex>

#include "base/log.hpp"

namespace gpupool::internal {

class Display;

/// Shows other processes the pool's figures, if that is due. Call it with the pool's lock.
void show_if_due(Display& display) noexcept;

/// A mutex that knows whether a thread waits for it.
class WaitedMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    turns_.fetch_add(1, std::memory_order_relaxed);
  }
  void unlock() { mutex_.unlock(); }

  bool has_waiters() const noexcept { return waiting_.load(std::memory_order_relaxed) != 0; }
  /// Call it without the lock. Returns once a thread that waited has had it, or none waits any more, or after
  /// some tries. A mutex alone would go back to the thread that has just given it up, and is still running.
  void wait_for_turn() const noexcept;

 private:
  std::mutex mutex_;
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> turns_{0};  // how often a thread that waited got it
};

/// Like std::unique_lock, but what the thread logs meanwhile is sent only after the unlock, since the log's
/// receiver may call the library again.
class QuietLock {
 public:
  explicit QuietLock(WaitedMutex& mutex, Display* shown = nullptr)
      : mutex_(mutex), lock_(mutex), shown_(shown) {
    hold_lines();
  }
  QuietLock(QuietLock&&) noexcept = default;
  QuietLock& operator=(QuietLock&&) = delete;
  ~QuietLock() {
    if (lock_.owns_lock()) unlock();
  }

  void lock() {
    lock_.lock();
    hold_lines();
  }
  void unlock() {
    if (shown_ != nullptr) show_if_due(*shown_);
    lock_.unlock();
    send_lines();
  }

  /// Lets the threads that wait for the lock have it, if there are any. If true, it was given up, and what it
  /// guards may have changed. Long work calls this at least every 100 us.
  bool give_way() {
    if (!mutex_.has_waiters()) return false;
    unlock();
    mutex_.wait_for_turn();
    lock();
    return true;
  }

 private:
  WaitedMutex& mutex_;
  std::unique_lock<WaitedMutex> lock_;
  Display* shown_;
};

}  // namespace gpupool::internal
