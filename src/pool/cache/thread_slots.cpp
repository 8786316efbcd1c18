// SPDX-License-Identifier: Apache-2.0
#include "pool/cache/thread_slots.hpp"

#include <atomic>

#include "os/thread.hpp"

namespace gpupool::internal {

constinit std::atomic<ThreadSlots::Return> ThreadSlots::return_{nullptr};
thread_local constinit ThreadSlots::Slots ThreadSlots::slots_{};
thread_local constinit bool ThreadSlots::ending_ = false;

namespace {

constinit std::atomic<uint64_t> end_key{os::kNoKey};

}  // namespace

void ThreadSlots::close(const Slot& slot) noexcept {
  if (slot.cache != nullptr) return_.load()(slot.pool_id, slot.cache);
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
  os::at_thread_end(end_key, on_thread_exit, &slots_, sizeof slots_);
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
