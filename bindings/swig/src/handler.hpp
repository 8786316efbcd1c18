// SPDX-License-Identifier: Apache-2.0
// A pool's out-of-memory handler, as the library calls it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "failure.hpp"

namespace binding {

/// A function of the language that is asked before a malloc fails.
class OomHandler {
 public:
  virtual ~OomHandler() = default;
  /// Returns true to have the malloc tried again. On the thread of the malloc, which may be one that the
  /// language does not know: then the answer is false. What the function throws is kept until the malloc has
  /// failed, and is thrown by it.
  virtual bool ask(uint64_t size, uint32_t attempt) noexcept = 0;
};

/// Where a pool keeps its handler, which may be exchanged while it is asked.
class HandlerSlot {
 public:
  HandlerSlot() = default;
  HandlerSlot(const HandlerSlot&) = delete;
  HandlerSlot& operator=(const HandlerSlot&) = delete;

  /// That of a default pool is for ever, because other languages may ask it at any time.
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
    // First, since it may be refused.
    check(gpupool_set_oom_handler(pool, handler ? ask : nullptr, this));
    exchange(std::move(handler));
  }
  /// When the pool is destroyed.
  void drop() noexcept { exchange(nullptr); }

 private:
  /// What was there goes behind the lock, since its end may run code of the language.
  void exchange(std::shared_ptr<OomHandler> handler) noexcept {
    const std::lock_guard lock(mutex_);
    handler_.swap(handler);
  }

  static int32_t ask(void* user, gpupool_t* /*pool*/, uint64_t size, uint32_t attempt) noexcept {
    auto* const slot = static_cast<HandlerSlot*>(user);
    std::shared_ptr<OomHandler> handler;
    {
      const std::lock_guard lock(slot->mutex_);
      handler = slot->handler_;
    }
    return handler && handler->ask(size, attempt) ? 1 : 0;
  }

  std::mutex mutex_;
  std::shared_ptr<OomHandler> handler_;
};

}  // namespace binding
