// SPDX-License-Identifier: Apache-2.0
#include "pool/thread_slots.hpp"

#include <pthread.h>

#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal {

thread_local constinit ThreadSlots::Slots ThreadSlots::slots_{};
thread_local constinit bool ThreadSlots::ending_ = false;

void ThreadSlots::give_back(const Slot& slot) noexcept {
  if (slot.cache == nullptr) return;
  // The pool may be gone, and its cache with it: the number tells.
  if (const auto pool = Registry::instance().find(slot.pool_id)) pool->detach_thread(slot.cache);
}

void ThreadSlots::on_thread_exit(void* slots) noexcept {
  ending_ = true;
  for (Slot& slot : *static_cast<Slots*>(slots)) {
    const Slot old = slot;
    slot = {};
    give_back(old);
  }
}

void ThreadSlots::remember(uint64_t pool_id, ThreadCache* cache) noexcept {
  static const pthread_key_t key = [] {
    pthread_key_t created{};
    pthread_key_create(&created, on_thread_exit);
    return created;
  }();
  pthread_setspecific(key, &slots_);
  const Slot old = slots_[pool_id % kSlots];
  slots_[pool_id % kSlots] = {pool_id, cache};
  give_back(old);
}

void ThreadSlots::forget(uint64_t pool_id) noexcept {
  Slot& slot = slots_[pool_id % kSlots];
  if (slot.pool_id != pool_id) return;
  const Slot old = slot;
  slot = {};
  give_back(old);
}

void ThreadSlots::forget_all() noexcept {
  slots_ = {};
}

}  // namespace gpupool::internal
