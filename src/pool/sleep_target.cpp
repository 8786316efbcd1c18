// SPDX-License-Identifier: Apache-2.0
// A sleep with a target: gives back so many bytes, those that matter least first, and the pool stays awake.
// What is cached costs nothing; the rest comes from blocks that sleep alone, the idlest first.
//
// A block's chunks know when it was taken from its heap, since nobody else touches them. What threads' caches
// do with it later leaves no trace, which is what makes them fast.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/defer.hpp"
#include "pool/fall_asleep.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_parts.hpp"

namespace gpupool::internal {
namespace {

/// How much more the device is to get back.
uint64_t missing(const SleepOptions& options, const Sleeper::Result& result) noexcept {
  return options.target - std::min(options.target, result.released_bytes - result.retained_bytes);
}

}  // namespace

/// A free of a watched block comes to the pool's lock, which forgets it: what is at the same address later is
/// another block.
class Sleeper::Watch {
 public:
  explicit Watch(Sleeper& sleeper) noexcept : sleeper_(sleeper) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    const std::unordered_set<Address> watched = std::exchange(sleeper_.watched_, {});
    for (const Address address : watched) sleeper_.remove_mark(address);
  }

 private:
  Sleeper& sleeper_;
};

void Sleeper::watch(const std::vector<Candidate>& candidates) {
  for (const Candidate& each : candidates) {
    watched_.insert(each.address);
    Range* block = find_live(each.address);
    if (block == nullptr || !add_mark(*block)) watched_.erase(each.address);
  }
}

/// In the pool's turn. The pool is awake.
Status Sleeper::sleep_target(Lock& lock, const SleepOptions& options, Result& result) {
  if (const Status status = check_no_capture(pool_.streams_); status != kSuccess) return status;
  const ErrorRecord before = last_error();
  const uint64_t start = device_.raw().now_ns();
  const Watch watch(*this);
  Result own{};
  const Status status = attempt([&] { return reach_target(lock, options, own); });
  saved_.release(lock);
  if (status != kSuccess) return status;
  last_error() = before;  // blocks were passed over, and that is no failure
  own.nanoseconds = device_.raw().now_ns() - start;
  add_to(result, own);
  return kSuccess;
}

/// Puts as many blocks to sleep as seem to be enough, after one wait for the streams; and more, if some of
/// them were freed meanwhile or kept a part of their memory.
Status Sleeper::reach_target(Lock& lock, const SleepOptions& options, Result& result) {
  // First of all, so that what is handed out from here on is no candidate.
  const std::vector<Candidate> candidates = find_candidates(options);
  watch(candidates);
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    if (const Status status = release_idle(options.target, result); status != kSuccess) return status;
  }
  (void)pool_.exports_.settle(true);
  std::vector<Candidate> chosen;
  chosen.reserve(candidates.size());
  for (auto next = candidates.begin(); next != candidates.end() && missing(options, result) != 0;) {
    chosen.clear();
    for (uint64_t bytes = 0; next != candidates.end() && bytes < missing(options, result); ++next) {
      if (!may_go(next->address) || !has_agreed(lock, next->address)) continue;
      chosen.push_back(*next);
      bytes += next->bytes;
    }
    if (const Status status = sleep_candidates(lock, chosen, options, result); status != kSuccess)
      return status;
  }
  return kSuccess;
}

/// Releases cached memory. A child's may belong to a graph, so it stays. Call it without the lock.
Status Sleeper::release_idle(uint64_t bytes, Result& result) {
  if (pool_.options_.is_child) return kSuccess;
  uint64_t released = 0;
  const Status status = pool_.trim_by(bytes, released, "a sleep with a target");
  result.released_bytes += released;
  return status;
}

/// All blocks that could go, in the order in which they should. No two were taken at the same moment.
std::vector<Sleeper::Candidate> Sleeper::find_candidates(const SleepOptions& options) const {
  std::vector<Candidate> found;
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live) || range->owner() == nullptr || range->size < kGranule || is_asleep(*range))
        continue;
      Candidate each{range->address, 0, !options.drops || keep_.contains(range->address), 0};
      for_own_chunks(*range, [&](const Chunk* chunk) {
        each.bytes += chunk->size;
        each.taken = std::max(each.taken, chunk->serial);
      });
      if (each.bytes != 0) found.push_back(each);
    }
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.is_saved, a.taken) < std::tie(b.is_saved, b.taken);
  });
  return found;
}

/// Whether a candidate is still the same block, and nobody else relies on its memory.
bool Sleeper::may_go(Address address) const noexcept {
  return watched_.contains(address) && pool_.exports_.find(address) == 0 &&
         pool_.protections_.find(address) == 0;
}

bool Sleeper::has_agreed(Lock& lock, Address address) {
  return agree(lock, address) == kSuccess && watched_.contains(address);
}

/// Puts blocks to sleep whose hooks have agreed, until the target is reached.
Status Sleeper::sleep_candidates(Lock& lock, const std::vector<Candidate>& blocks,
                                 const SleepOptions& options, Result& result) {
  Status status = prepare_for(lock, blocks);
  if (status == kSuccess) status = FallAsleep(bedroom_, lock, options).wait_for_work();
  if (status == kSuccess) pool_.source_->settle();
  for (const Candidate& each : blocks) {
    if (status == kSuccess && missing(options, result) != 0 && may_go(each.address))
      status = attempt([&] { return sleep_candidate(lock, each.address, options, result); });
    tell_if_awake(lock, each.address);
  }
  return status;
}

/// Gets the host's memory for all of them, so that a host that is short is found before one goes.
Status Sleeper::prepare_for(Lock& lock, const std::vector<Candidate>& blocks) {
  uint64_t saved = 0;
  for (const Candidate& each : blocks) saved += each.is_saved ? each.bytes : 0;
  return saved != 0 ? saved_.prepare(lock, saved) : kSuccess;
}

/// A block that is freed on its way is none any more, and no failure.
Status Sleeper::sleep_candidate(Lock& lock, Address address, const SleepOptions& options, Result& result) {
  Range* block = find_live(address);
  if (block == nullptr || mark_alone(*block) != kSuccess) return kSuccess;
  const Transit transit(*this, address);
  const Defer leave([&] {
    if (!has_asleep(*block)) end_alone(address);
  });
  Result own{};
  const Status status = save_and_unmap(lock, *block, options, own);
  if (status == GPUPOOL_ERROR_UNKNOWN_POINTER) return kSuccess;
  if (status == kSuccess) add_to(result, own);
  return status;
}

// ---- several pools

/// What a sleep with a target would refuse, before any pool has changed.
Status Sleeper::check_target() {
  if (const Status status = check_kind(); status != kSuccess) return status;
  const Lock lock = pool_.enter();
  return has_woken_blocks_ ? refuse_woken() : check_no_capture(pool_.streams_);
}

/// The least important pool first, and among equals the idlest.
Status Sleeper::sleep_target_all(const std::vector<std::shared_ptr<Pool>>& pools, const SleepOptions& options,
                                 Result& result) {
  struct Place {
    int32_t priority;
    uint64_t last;
    Pool* pool;
  };
  std::vector<Place> order;
  for (const std::shared_ptr<Pool>& pool : pools) {
    if (const Status status = pool->sleeper_.check_target(); status != kSuccess) return status;
    const Lock lock = pool->door_.look();
    const Neighbours* group = pool->neighbours();
    order.push_back({group != nullptr ? group->priority() : 0, pool->space_.serial, pool.get()});
  }
  std::sort(order.begin(), order.end(), [](const Place& a, const Place& b) {
    return std::tie(a.priority, a.last) < std::tie(b.priority, b.last);
  });
  Result sum{};
  // Before the first block of any. A single pool does it itself.
  for (const Place& each : order) {
    if (order.size() == 1 || missing(options, sum) == 0) break;
    const Status status = each.pool->sleeper_.release_idle(missing(options, sum), sum);
    if (status != kSuccess) return status;
  }
  for (const Place& each : order) {
    SleepOptions rest = options;
    rest.target = missing(options, sum);
    if (rest.target == 0) break;
    if (const Status status = each.pool->sleeper_.sleep(rest, sum); status != kSuccess) return status;
  }
  add_to(result, sum);
  return kSuccess;
}

}  // namespace gpupool::internal
