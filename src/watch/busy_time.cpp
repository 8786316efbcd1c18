// SPDX-License-Identifier: Apache-2.0
#include "watch/busy_time.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>

#include "os/clock.hpp"

namespace gpupool::internal {
namespace {

constinit std::atomic<uint64_t> asked_at{0};
constinit std::atomic<int64_t> last_answer{0};
constinit std::atomic<uint64_t> busy_ns{0};

}  // namespace

uint64_t busy_time_ns() noexcept {
  constexpr uint64_t kTick = 1'000'000;
  const uint64_t now = os::coarse_ns();
  uint64_t before = asked_at.load(std::memory_order_relaxed);
  // Another thread may have read a later tick.
  if (now < before + kTick || !asked_at.compare_exchange_strong(before, now, std::memory_order_relaxed))
    return busy_ns.load(std::memory_order_relaxed);
  const int64_t answer = std::clock();
  const int64_t used = answer - last_answer.exchange(answer, std::memory_order_relaxed);
  const uint64_t used_ns = used > 0 ? static_cast<uint64_t>(used) * (1'000'000'000 / CLOCKS_PER_SEC) : 0;
  const uint64_t more = std::min(used_ns, now - before);
  return busy_ns.fetch_add(more, std::memory_order_relaxed) + more;
}

}  // namespace gpupool::internal
