// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/sleep_target.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/defer.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/exports.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/protections.hpp"
#include "pool/memory/source.hpp"
#include "pool/request/capacity.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/sleep/asleep_chunks.hpp"
#include "pool/sleep/fall_asleep.hpp"
#include "pool/sleep/saved_bytes.hpp"
#include "pool/sleep/sleep_parts.hpp"

namespace gpupool::internal {

Status release_idle(SleepContext& in, uint64_t bytes, gpupool_sleep_result_t& result) {
  if (in.pool.options.is_child) return kSuccess;
  uint64_t released = 0;
  const Status status = in.capacity.trim_by(bytes, released, "a sleep with a target");
  result.released_bytes += released;
  return status;
}

/// In the pool's turn. The pool is awake.
Status TargetSleep::run(Result& result) {
  if (const Status status = check_no_capture(in_.pool.streams); status != kSuccess) return status;
  const ErrorRecord before = last_error();
  const uint64_t start = in_.pool.device.now_ns();
  LoneBlocks::Watch watch(in_.blocks);
  Result own{};
  const Status status = without_throwing([&] { return reach(watch, own); });
  in_.saved.release(lock_);
  if (status != kSuccess) return status;
  last_error() = before;  // blocks were passed over, and that is no failure
  own.nanoseconds = in_.pool.device.now_ns() - start;
  add_to(result, own);
  return kSuccess;
}

/// Puts as many blocks to sleep as seem to be enough, after one wait for the streams; and more, if some of
/// them were freed meanwhile or kept a part of their memory.
Status TargetSleep::reach(LoneBlocks::Watch& watch, Result& result) {
  // First of all, so that what is handed out from here on is no candidate.
  const std::vector<Candidate> candidates = find_candidates();
  for (const Candidate& each : candidates) watch.add(each.address);
  const Status released = lock_.give_up_for([&] { return release_idle(in_, options_.target, result); });
  if (released != kSuccess) return released;
  (void)in_.reclaimer.settle_exports(true);
  std::vector<Candidate> chosen;
  chosen.reserve(candidates.size());
  for (auto next = candidates.begin(); next != candidates.end() && missing(options_, result) != 0;) {
    chosen.clear();
    for (uint64_t bytes = 0; next != candidates.end() && bytes < missing(options_, result); ++next) {
      if (!may_go(next->address) || !has_agreed(next->address)) continue;
      chosen.push_back(*next);
      bytes += next->bytes;
    }
    if (const Status status = sleep_candidates(chosen, result); status != kSuccess) return status;
  }
  return kSuccess;
}

/// All blocks that could go, in the order in which they should. No two were taken at the same moment.
std::vector<TargetSleep::Candidate> TargetSleep::find_candidates() const {
  std::vector<Candidate> found;
  for (const Region& region : in_.pool.space.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live) || range->owner() == nullptr || range->size < kGranule ||
          in_.chunks.are_in(*range))
        continue;
      Candidate each{range->address, 0, !options_.drops || in_.blocks.is_kept(range->address), 0};
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
bool TargetSleep::may_go(Address address) const noexcept {
  return in_.blocks.is_watched(address) && in_.exports.find(address) == 0 &&
         in_.protections.find(address) == 0;
}

bool TargetSleep::has_agreed(Address address) {
  return block_.agree(address) == kSuccess && in_.blocks.is_watched(address);
}

/// Puts blocks to sleep whose hooks have agreed, until the target is reached.
Status TargetSleep::sleep_candidates(const std::vector<Candidate>& blocks, Result& result) {
  Status status = prepare_for(blocks);
  if (status == kSuccess) status = FallAsleep(in_, lock_, options_).wait_for_work();
  if (status == kSuccess) in_.source.settle();
  for (const Candidate& each : blocks) {
    if (status == kSuccess && missing(options_, result) != 0 && may_go(each.address))
      status = without_throwing([&] { return sleep_candidate(each.address, result); });
    block_.tell_if_awake(each.address);
  }
  return status;
}

/// Gets the host's memory for all of them, so that a host that is short is found before one goes.
Status TargetSleep::prepare_for(const std::vector<Candidate>& blocks) {
  uint64_t saved = 0;
  for (const Candidate& each : blocks) saved += each.is_saved ? each.bytes : 0;
  return saved != 0 ? in_.saved.prepare(lock_, saved) : kSuccess;
}

/// A block that is freed on its way is none any more, and no failure.
Status TargetSleep::sleep_candidate(Address address, Result& result) {
  Range* block = find_live(in_.pool.space, address);
  if (block == nullptr || in_.blocks.mark(*block) != kSuccess) return kSuccess;
  const LoneBlocks::Transit transit(in_.blocks, in_.reclaimer, address);
  const Defer leave([&] {
    if (!has_asleep(*block)) in_.blocks.end(address);
  });
  Result own{};
  const Status status = block_.save_and_unmap(*block, own);
  if (status == GPUPOOL_ERROR_UNKNOWN_POINTER) return kSuccess;
  if (status == kSuccess) add_to(result, own);
  return status;
}

}  // namespace gpupool::internal
