// SPDX-License-Identifier: Apache-2.0
#include "pool/process/idle_pools.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

#include "base/log.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "pool/pool.hpp"
#include "pool/process/registry.hpp"
#include "pool/request/idle.hpp"

namespace gpupool::internal {
namespace {

/// What a call that came for something else releases at most: some 2 ms of driver calls.
constexpr uint64_t kAtOnce = uint64_t{256} << 20;

constinit std::atomic<uint64_t> shortest{std::numeric_limits<uint64_t>::max()};  // that a pool wants, ns
constinit std::atomic<uint64_t> thread_of{0};  // the process in which the thread runs

/// Whether some pool may have more to release.
bool look() noexcept {
  bool more = false;
  try {
    for (const std::shared_ptr<Pool>& pool : Registry::instance().all()) {
      if (pool->is_live()) more = pool->release_if_idle(kAtOnce) || more;
    }
  } catch (const std::bad_alloc&) {
    // The next look finds them.
  }
  return more;
}

void* look_for_ever(void*) {
  for (;;) {
    constexpr uint64_t kLongest = 5'000'000'000;
    const uint64_t pause = std::clamp(shortest.load(std::memory_order_relaxed) / 4, kLookEvery, kLongest);
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
    while (look()) continue;
  }
}

}  // namespace

void look_after_idle_pools(uint64_t idle_ns, bool thread) noexcept {
  uint64_t known = shortest.load();
  while (idle_ns < known && !shortest.compare_exchange_weak(known, idle_ns)) continue;
  expect_idle_pools([]() noexcept { (void)look(); });
  // A child of fork has no thread, and starts one with its own first pool.
  const uint64_t process = os::process_id();
  if (!thread || thread_of.exchange(process) == process) return;
  os::HelperThread helper;
  if (helper.start("gpupool-idle", look_for_ever, nullptr)) return helper.detach();
  log_line(GPUPOOL_LOG_ERROR, "there is no thread that looks for idle pools: %s", std::strerror(errno));
}

}  // namespace gpupool::internal
