// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/wake_queue.hpp"

#include <atomic>

namespace gpupool::internal {
namespace {

struct Slot {
  std::atomic<uint64_t> number{0};  // 0: free
  std::atomic<Scarce> need{0};
};

/// As many as may wait in order. A process with more pools than that on one card has other troubles.
constinit std::array<Slot, 256> slots{};
constinit std::atomic<uint64_t> last_step{0};

}  // namespace

WakePlace::~WakePlace() {
  if (slot_ == kNone) return;
  slots[slot_].need.store(0, std::memory_order_relaxed);
  slots[slot_].number.store(0, std::memory_order_release);
}

bool WakePlace::has_ahead(Scarce need) const noexcept {
  for (const Slot& slot : slots) {
    const uint64_t number = slot.number.load(std::memory_order_acquire);
    if (number != 0 && number < number_ && slot.need.load(std::memory_order_relaxed) == need) return true;
  }
  return false;
}

void WakePlace::wait_for(Scarce need) noexcept {
  if (!waits_) {
    waits_ = true;
    number_ = next_step();
    for (size_t i = 0; i < slots.size() && slot_ == kNone; ++i) {
      uint64_t free = 0;
      if (slots[i].number.compare_exchange_strong(free, number_, std::memory_order_acq_rel)) slot_ = i;
    }
  }
  if (slot_ != kNone) slots[slot_].need.store(need, std::memory_order_relaxed);
}

uint64_t WakePlace::next_step() noexcept {
  return last_step.fetch_add(1, std::memory_order_relaxed) + 1;
}

void WakePlace::forget_all() noexcept {
  for (Slot& slot : slots) {
    slot.need.store(0, std::memory_order_relaxed);
    slot.number.store(0, std::memory_order_relaxed);
  }
}

}  // namespace gpupool::internal
