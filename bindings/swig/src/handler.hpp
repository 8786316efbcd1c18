// SPDX-License-Identifier: Apache-2.0
// A pool's out-of-memory handler, as the library calls it.
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

/// Holds a pool's handler, which may be replaced while it runs.
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
    exchange(std::move(handler));
  }
  /// When the pool is destroyed.
  void drop() noexcept { exchange(nullptr); }

 private:
  /// The old handler is destroyed after the lock is released, because its end may run code of the language.
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
