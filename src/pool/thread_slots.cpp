// SPDX-License-Identifier: Apache-2.0
#include "pool/thread_slots.hpp"

#include <pthread.h>

#include <atomic>

#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal {

thread_local constinit ThreadSlots::Slots ThreadSlots::slots_{};
thread_local constinit bool ThreadSlots::ending_ = false;

void ThreadSlots::close(const Slot& slot) noexcept {
  if (slot.cache == nullptr) return;
  // The pool may be gone, and its cache with it: the number tells.
  if (const auto pool = Registry::instance().find(slot.pool_id)) pool->close_cache(slot.cache);
}

void ThreadSlots::on_thread_exit(void* slots) noexcept {
  ending_ = true;
  for (Slot& slot : *static_cast<Slots*>(slots)) {
    const Slot old = slot;
    slot = {};
    close(old);
  }
}

/// Calls on_thread_exit when the calling thread ends. Without a lock or a guard, which a child of fork would
/// inherit taken: where several threads come first, one key stays.
void ThreadSlots::watch_exit() noexcept {
  constexpr uint64_t kNone = ~uint64_t{0};
  static constinit std::atomic<uint64_t> key{kNone};
  uint64_t known = key.load(std::memory_order_acquire);
  if (known == kNone) {
    pthread_key_t created{};
    if (pthread_key_create(&created, on_thread_exit) != 0) return;
    if (key.compare_exchange_strong(known, created)) {
      known = created;
    } else {
      pthread_key_delete(created);
    }
  }
  pthread_setspecific(static_cast<pthread_key_t>(known), &slots_);
}

void ThreadSlots::remember(uint64_t pool_id, ThreadCache* cache) noexcept {
  watch_exit();
  const Slot old = slots_[pool_id % kSlots];
  slots_[pool_id % kSlots] = {pool_id, cache};
  close(old);
}

void ThreadSlots::forget(uint64_t pool_id) noexcept {
  Slot& slot = slots_[pool_id % kSlots];
  if (slot.pool_id != pool_id) return;
  const Slot old = slot;
  slot = {};
  close(old);
}

void ThreadSlots::forget_all() noexcept {
  slots_ = {};
}

}  // namespace gpupool::internal
