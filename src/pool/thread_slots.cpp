// SPDX-License-Identifier: Apache-2.0
#include "pool/thread_slots.hpp"

#include "os/thread.hpp"
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

void ThreadSlots::watch_exit() noexcept {
  os::at_thread_end(on_thread_exit, &slots_, sizeof slots_);
}

void ThreadSlots::remember(uint64_t pool_id, ThreadCache* cache) noexcept {
  const Slot old = slots_[pool_id % kSlots];
  slots_[pool_id % kSlots] = {pool_id, cache};
  watch_exit();
  close(old);
}

void ThreadSlots::forget(uint64_t pool_id) noexcept {
  Slot& slot = slots_[pool_id % kSlots];
  if (slot.pool_id != pool_id) return;
  const Slot old = slot;
  slot = {};
  watch_exit();
  close(old);
}

void ThreadSlots::forget_all() noexcept {
  slots_ = {};
}

}  // namespace gpupool::internal
