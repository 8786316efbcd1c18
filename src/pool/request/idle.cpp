// SPDX-License-Identifier: Apache-2.0
#include "pool/request/idle.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {
namespace {

constinit std::atomic<LookForIdle> looker{nullptr};
constinit std::atomic<uint64_t> looked_at{0};  // by the clock of who looked

}  // namespace

uint64_t Idle::mallocs() const noexcept {
  uint64_t sum = 0;
  pool_.caches.for_each_locked([&](const ThreadCache& cache) { sum += cache.counters.mallocs(); });
  return sum;
}

void Idle::begin_anew() noexcept {
  if (pool_.options.idle_ns != 0) since_.store(pool_.device.age_ns(), std::memory_order_relaxed);
}

void Idle::note_cached() noexcept {
  if (pool_.options.idle_ns != 0 && find_new(pool_.device.age_ns())) begin_anew();
}

bool Idle::is_due() noexcept {
  if (pool_.options.idle_ns == 0) return false;
  const uint64_t now = pool_.device.age_ns();
  const uint64_t before = looked_;
  uint64_t since = since_.load(std::memory_order_relaxed);
  // If a malloc has noted a later time meanwhile, that stays.
  if (find_new(now) && since < before && since_.compare_exchange_strong(since, before)) since = before;
  return now - std::min(now, since) >= pool_.options.idle_ns && pool_.ledger.used() != 0 &&
         pool_.gate.is_awake();
}

/// Looks, and says whether there were mallocs since the last look.
bool Idle::find_new(uint64_t now) noexcept {
  looked_ = now;
  const uint64_t before = std::exchange(mallocs_, mallocs());
  return mallocs_ != before;
}

void expect_idle_pools(LookForIdle look) noexcept {
  looker.store(look, std::memory_order_relaxed);
}

void look_for_idle_pools(Device& clock) noexcept {
  const LookForIdle look = looker.load(std::memory_order_relaxed);
  if (look == nullptr) return;
  const uint64_t now = clock.now_ns();
  uint64_t last = looked_at.load(std::memory_order_relaxed);
  // Another device's clock may be behind: then the difference is large, and the look comes early.
  if (now - last >= kLookEvery && looked_at.compare_exchange_strong(last, now)) look();
}

}  // namespace gpupool::internal
