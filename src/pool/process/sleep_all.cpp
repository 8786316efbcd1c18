// SPDX-License-Identifier: Apache-2.0
#include "pool/process/sleep_all.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>

#include "pool/pool.hpp"
#include "pool/process/registry.hpp"
#include "pool/sleep/sleep_parts.hpp"
#include "pool/sleep/sleep_target.hpp"

namespace gpupool::internal {
namespace {

/// Calls action for each pool; on failure, undo for those before it.
template <typename Do, typename Undo>
Status for_all(const std::vector<std::shared_ptr<Pool>>& pools, Do action, Undo undo) {
  for (size_t i = 0; i < pools.size(); ++i) {
    const Status status = action(pools[i]->sleeper());
    if (status == kSuccess) continue;
    const KeepError keep_error;
    const interrupts::Off off;
    while (i-- > 0) undo(pools[i]->sleeper());
    return status;
  }
  return kSuccess;
}

/// The pools that can be used and have this name, or, with null, any name.
std::vector<std::shared_ptr<Pool>> find_named(const char* tag) {
  std::vector<std::shared_ptr<Pool>> pools = Registry::instance().all();
  std::erase_if(pools, [&](const std::shared_ptr<Pool>& pool) {
    const std::string name = pool->sleeper().name();
    return !pool->is_live() || name.empty() || (tag != nullptr && name != tag);
  });
  return pools;
}

int32_t priority_of(const Pool& pool) noexcept {
  const GroupLimit* group = pool.group();
  return group != nullptr ? group->priority() : 0;
}

/// Where a pool stands among those that may go to sleep.
struct SleepCandidate {
  int32_t priority;
  uint64_t since;  // when it last took memory, or since when it may sleep
  Pool* pool;
};

/// The least important pool first, and among equals the one that comes from earlier.
void sort_candidates(std::vector<SleepCandidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const SleepCandidate& a, const SleepCandidate& b) {
    return std::tie(a.priority, a.since) < std::tie(b.priority, b.since);
  });
}

Status sleep_target_all(const std::vector<std::shared_ptr<Pool>>& pools, const SleepOptions& options,
                        gpupool_sleep_result_t& result) {
  std::vector<SleepCandidate> order;
  for (const std::shared_ptr<Pool>& pool : pools) {
    if (const Status status = pool->sleeper().check_target(options); status != kSuccess) return status;
    order.push_back({priority_of(*pool), pool->last_taken(), pool.get()});
  }
  sort_candidates(order);
  gpupool_sleep_result_t sum{};
  // Before the first block of any. A single pool does it itself.
  for (const SleepCandidate& each : order) {
    if (order.size() == 1 || missing(options, sum) == 0) break;
    const Status status = each.pool->sleeper().release_idle(missing(options, sum), sum);
    if (status != kSuccess) return status;
  }
  for (const SleepCandidate& each : order) {
    SleepOptions rest = options;
    rest.target = missing(options, sum);
    if (rest.target == 0) break;
    if (const Status status = each.pool->sleeper().sleep(rest, sum); status != kSuccess) return status;
  }
  add_to(result, sum);
  return kSuccess;
}

}  // namespace

Status sleep_tag(const char* tag, const SleepOptions& options, gpupool_sleep_result_t& result) {
  return sleep_all(find_named(tag), options, result);
}

Status sleep_all(std::vector<std::shared_ptr<Pool>> pools, const SleepOptions& options,
                 gpupool_sleep_result_t& result) {
  std::erase_if(pools, [](const auto& pool) { return pool->sleeper().is_all_asleep(); });
  if (options.target != 0) return sleep_target_all(pools, options, result);
  return for_all(
      pools, [&](Sleeper& each) { return each.sleep(options, result); },
      [&](Sleeper& each) {
        gpupool_sleep_result_t ignored{};
        (void)each.wake({}, ignored);
      });
}

Status wake_tag(const char* tag, const SleepOptions& options, gpupool_sleep_result_t& result) {
  return wake_all(find_named(tag), options, result);
}

Status wake_all(std::vector<std::shared_ptr<Pool>> pools, const SleepOptions& options,
                gpupool_sleep_result_t& result) {
  std::erase_if(pools, [](const auto& pool) { return pool->sleeper().is_all_awake(); });
  const auto sleeps = [](const auto& pool) { return pool->sleeper().state() != GPUPOOL_SLEEP_STATE_AWAKE; };
  std::vector<std::shared_ptr<Pool>> last = pools;
  std::erase_if(last, sleeps);
  std::erase_if(pools, std::not_fn(sleeps));
  const Status status = for_all(
      pools, [&](Sleeper& each) { return each.wake(options, result); },
      [&](Sleeper& each) {
        const SleepOptions again = each.last_options();
        gpupool_sleep_result_t ignored{};
        (void)each.sleep(again, ignored);
      });
  if (status != kSuccess) return status;
  // Only blocks sleep in these.
  return for_all(
      last, [&](Sleeper& each) { return each.wake(options, result); }, [](Sleeper&) {});
}

uint64_t sleep_allowed(std::vector<std::shared_ptr<Pool>> pools, uint64_t bytes) {
  std::vector<SleepCandidate> order;
  for (const std::shared_ptr<Pool>& pool : pools) {
    const uint64_t since = pool->is_live() ? pool->sleeper().allowed_since() : 0;
    if (since != 0) order.push_back({priority_of(*pool), since, pool.get()});
  }
  sort_candidates(order);
  uint64_t given = 0;
  for (const SleepCandidate& each : order) {
    if (given < bytes) given += each.pool->sleeper().sleep_for_others();
  }
  return given;
}

}  // namespace gpupool::internal
