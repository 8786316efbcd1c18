// SPDX-License-Identifier: Apache-2.0
// The pool's lock: sends log lines only after it is given up, shows other processes what has changed, and
// lets long work give way to threads that wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/defer.hpp"
#include "base/interrupts.hpp"
#include "base/log.hpp"

namespace gpupool::internal {

/// Who is told, with the pool's lock, that a call which may have changed the pool is about to give it up.
class Onlooker {
 public:
  virtual void look() noexcept = 0;

 protected:
  ~Onlooker() = default;
};

/// A mutex that knows whether a thread waits for it.
class PoolMutex {
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

  /// How many calls are inside a function of the user's: they go on with what the mutex guards.
  std::atomic<uint32_t>& callbacks() noexcept { return callbacks_; }

 private:
  std::mutex mutex_;
  std::atomic<uint32_t> callbacks_{0};
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> turns_{0};  // how often a thread that waited got it
};

/// Like std::unique_lock, but what the thread logs meanwhile is sent only after the unlock, since the log's
/// receiver may call the library again.
class PoolLock {
 public:
  explicit PoolLock(PoolMutex& mutex, Onlooker* onlooker = nullptr)
      : mutex_(mutex), lock_(mutex), onlooker_(onlooker) {
    hold_lines();
  }
  PoolLock(PoolLock&&) noexcept = default;
  PoolLock& operator=(PoolLock&&) = delete;
  ~PoolLock() {
    if (lock_.owns_lock()) unlock();
  }

  void lock() {
    lock_.lock();
    hold_lines();
  }
  void unlock() {
    if (onlooker_ != nullptr) onlooker_->look();
    const bool calls = has_lines();
    if (calls) ++mutex_.callbacks();
    lock_.unlock();
    send_lines();
    if (calls) --mutex_.callbacks();
  }

  /// Runs a function with the lock given up. What it guards may have changed then.
  template <typename Function>
  auto give_up_for(Function function) {
    unlock();
    const Defer relock([&] { lock(); });
    return function();
  }

  /// The same for a function of the user's. It may destroy the pool, which then does not end before the call
  /// that is under way.
  template <typename Function>
  auto call_out(Function function) {
    ++mutex_.callbacks();
    const Defer leave([&] { --mutex_.callbacks(); });
    return give_up_for(function);
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
  PoolMutex& mutex_;
  std::unique_lock<PoolMutex> lock_;
  Onlooker* onlooker_;
};

/// Whether a wait of the lock's holder is to end; gives the lock up to ask.
inline bool is_over(interrupts::Patience& patience, PoolLock& lock) {
  if (!patience.is_due()) return false;
  return lock.give_up_for([&] { return patience.is_over(); });
}

/// Waits until ready(), of which `changed` tells. INTERRUPTED.
template <typename Ready>
Status wait_until_ready(std::condition_variable_any& changed, PoolLock& lock, gpupool_wait_t wait,
                        Ready ready) {
  interrupts::Patience patience(wait);
  while (!ready()) {
    if (!interrupts::are_possible()) {
      changed.wait(lock);
    } else if (is_over(patience, lock)) {
      return interrupts::give_up();
    } else if (!ready()) {
      changed.wait_for(lock, interrupts::kSlice);
    }
  }
  return kSuccess;
}

}  // namespace gpupool::internal
