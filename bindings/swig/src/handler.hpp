// SPDX-License-Identifier: Apache-2.0
// A pool's out-of-memory handler, and its hooks around sleep, as the library calls them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "failure.hpp"

namespace binding {

/// A function of the language that is called before a malloc fails.
class OomHandler {
 public:
  virtual ~OomHandler() = default;
  /// Returns true to retry the malloc. Runs on the malloc's thread; the answer is false if the language does
  /// not know that thread. What the function throws is kept until the malloc has failed, and thrown then.
  virtual bool ask(uint64_t size, uint32_t attempt) noexcept = 0;
};

/// A function of the language that is called before memory goes, or once it is there again.
class SleepHook {
 public:
  virtual ~SleepHook() = default;
  /// address: the block that sleeps or wakes alone; 0: all of the pool. Returns whether all is well. Runs on
  /// the thread of the sleep or the wake; the answer is false if the language does not know that thread, or
  /// has something to throw already. What the function throws counts as false, and is thrown at the call's
  /// end, even if the call succeeds.
  virtual bool call(uint64_t address) noexcept = 0;

  /// Whether one was called on this thread, or an upstream, which may have thrown as well, since this was
  /// cleared last.
  static inline thread_local bool was_called = false;
};

/// Holds a pool's handler and hooks, which may be replaced while they run.
class HandlerSlot {
 public:
  HandlerSlot() = default;
  HandlerSlot(const HandlerSlot&) = delete;
  HandlerSlot& operator=(const HandlerSlot&) = delete;

  /// The slot of a default pool stays for ever, because other languages may call the handler at any time.
  static std::shared_ptr<HandlerSlot> of_default(gpupool_t* pool) {
    static auto& slots = *new std::map<gpupool_t*, std::shared_ptr<HandlerSlot>>;
    static auto& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    std::shared_ptr<HandlerSlot>& slot = slots[pool];
    if (!slot) slot = std::make_shared<HandlerSlot>();
    return slot;
  }

  /// Null: none.
  void set(gpupool_t* pool, std::shared_ptr<OomHandler> handler) {
    // Comes first, because it may be refused.
    check(gpupool_set_oom_handler(pool, handler ? ask : nullptr, this));
    exchange(handler_, std::move(handler));
  }
  /// The same for both hooks.
  void set_hooks(gpupool_t* pool, std::shared_ptr<SleepHook> before, std::shared_ptr<SleepHook> after) {
    check(gpupool_set_sleep_hooks(pool, before ? ask_before : nullptr, after ? tell_after : nullptr, this));
    exchange(before_, std::move(before));
    exchange(after_, std::move(after));
  }
  /// When the pool is destroyed.
  void drop() noexcept {
    exchange(handler_, {});
    exchange(before_, {});
    exchange(after_, {});
  }

 private:
  /// The old function is destroyed after the lock is released, because its end may run code of the language.
  template <class Function>
  void exchange(std::shared_ptr<Function>& place, std::shared_ptr<Function> function) noexcept {
    const std::lock_guard lock(mutex_);
    place.swap(function);
  }
  template <class Function>
  std::shared_ptr<Function> copy(const std::shared_ptr<Function>& place) noexcept {
    const std::lock_guard lock(mutex_);
    return place;
  }

  static int32_t ask(void* user, gpupool_t* /*pool*/, uint64_t size, uint32_t attempt) noexcept {
    auto* const slot = static_cast<HandlerSlot*>(user);
    const std::shared_ptr<OomHandler> handler = slot->copy(slot->handler_);
    return handler && handler->ask(size, attempt) ? 1 : 0;
  }
  static int32_t ask_before(void* user, gpupool_t* /*pool*/, gpupool_ptr_t block) noexcept {
    auto* const slot = static_cast<HandlerSlot*>(user);
    const std::shared_ptr<SleepHook> hook = slot->copy(slot->before_);
    SleepHook::was_called = true;
    return !hook || hook->call(block) ? 1 : 0;
  }
  static int32_t tell_after(void* user, gpupool_t* /*pool*/, gpupool_ptr_t block) noexcept {
    auto* const slot = static_cast<HandlerSlot*>(user);
    const std::shared_ptr<SleepHook> hook = slot->copy(slot->after_);
    SleepHook::was_called = true;
    return !hook || hook->call(block) ? 1 : 0;
  }

  std::mutex mutex_;
  std::shared_ptr<OomHandler> handler_;
  std::shared_ptr<SleepHook> before_;
  std::shared_ptr<SleepHook> after_;
};

}  // namespace binding
