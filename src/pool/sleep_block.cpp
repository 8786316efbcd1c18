// SPDX-License-Identifier: Apache-2.0
// Single blocks that sleep in an awake pool. The chunks that lie wholly inside such a block are asleep, and
// nothing else is: no chunk that a malloc, a steal or a trim could take. A marked block's free comes to the
// pool's lock, where free_block() turns the addresses of its sleeping chunks bare.
#include <algorithm>
#include <cinttypes>
#include <utility>
#include <vector>

#include "base/defer.hpp"
#include "pool/blocks.hpp"
#include "pool/fall_asleep.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_parts.hpp"
#include "pool/sleep_turn.hpp"
#include "pool/wake.hpp"

namespace gpupool::internal {

Range* Sleeper::find_live(Address address) const noexcept {
  return internal::find_live(pool_.space_, address);
}

Status Sleeper::sleep_block(Address address, const SleepOptions& options, Result& result) {
  if (const Status status = check_kind(); status != kSuccess) return status;
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  const Range* block = find_live(address);
  if (block == nullptr) return not_a_block(pool_.space_, address);
  if (is_asleep(*block)) return kSuccess;
  if (!is_awake()) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "the block at 0x%" PRIx64 " was woken in a pool that is asleep: wake the pool first",
                address);
  }
  if (const Status status = check_no_capture(pool_.streams_); status != kSuccess) return status;
  bool any = false;
  for_own_chunks(*block, [&](const Chunk*) { any = true; });
  if (!any) return kSuccess;
  if (const Status status = agree(lock, address); status != kSuccess) return status;
  const uint64_t start = device_.raw().now_ns();
  Result own{};
  const Status status = attempt([&] { return put_to_sleep(lock, address, options, own); });
  tell_if_awake(lock, address);
  if (status != kSuccess) return status;
  result = own;
  result.nanoseconds = device_.raw().now_ns() - start;
  return kSuccess;
}

/// Asks the hook whether the block may go.
Status Sleeper::agree(Lock& lock, Address address) {
  const bool is_new = hooks_.owe(address);
  const Status status = hooks_.before_release(lock, pool_.handle_, address);
  if (status != kSuccess && is_new) hooks_.forget(address);
  return status;
}

/// Tells the hook, which had agreed, if the block has not gone after all.
void Sleeper::tell_if_awake(Lock& lock, Address address) {
  const ErrorRecord cause = last_error();
  const Range* block = find_live(address);
  if (block == nullptr) {
    hooks_.forget(address);
  } else if (!is_asleep(*block)) {
    (void)hooks_.after_map(lock, pool_.handle_, address);
  }
  last_error() = cause;
}

/// Everything from awake to asleep. On failure the block is awake, unless even the way back fails.
Status Sleeper::put_to_sleep(Lock& lock, Address address, const SleepOptions& options, Result& result) {
  Range* block = find_live(address);
  if (block == nullptr) return not_a_block(pool_.space_, address);
  if (const Status status = check_own(address); status != kSuccess) return status;
  if (const Status status = mark_alone(*block); status != kSuccess) return status;
  const Transit transit(*this, address);
  // If the block stays awake, it is like any other again.
  const Defer leave([&] {
    if (!has_asleep(*block)) end_alone(address);
  });
  FallAsleep falling(bedroom_, lock, options);
  Plan plan;
  plan_sleep(plan, *block, falling.saves(*block));
  if (const Status status = saved_.prepare(lock, plan); status != kSuccess) return status;
  if (const Status status = falling.wait_for_work(); status != kSuccess) return status;
  pool_.source_->settle();
  return save_and_unmap(lock, *block, options, result);
}

/// Saves and unmaps a block on its way, which no work uses any more.
Status Sleeper::save_and_unmap(Lock& lock, const Range& block, const SleepOptions& options, Result& result) {
  const Address address = block.address;
  FallAsleep falling(bedroom_, lock, options);
  Plan plan;
  plan_sleep(plan, block, falling.saves(block));
  if (plan.entries.empty()) return kSuccess;
  // More than before, if old mappings have gone meanwhile.
  if (const Status status = saved_.prepare(lock, plan); status != kSuccess) return status;
  // The last that may throw: nothing may once copies are queued.
  saved_.reserve(plan.runs.size());
  const size_t records = 2 * plan.entries.size() + 1;
  pool_.space_.store.promise(records);
  alone_[address] = records;
  if (const Status status = falling.save_runs(plan); status != kSuccess) return status;
  if (!block.is(State::live)) {
    saved_.abandon(lock, plan);
    return not_a_block(pool_.space_, address);
  }
  saved_.add(plan.runs);
  if (const Status status = falling.unmap_and_release(plan); status != kSuccess) {
    undo_block(lock, plan, address);
    return status;
  }
  for (const SleepPlan::Entry& entry : plan.entries) {
    result.released_bytes += entry.chunk->size;
    if (entry.chunk->handle != 0) result.retained_bytes += entry.chunk->size;
  }
  result.saved_bytes = plan.saved;
  result.dropped_bytes = plan.dropped;
  return kSuccess;
}

/// Brings back what has gone.
void Sleeper::undo_block(Lock& lock, Plan& plan, Address address) {
  const ErrorRecord cause = last_error();
  saved_.abandon(lock, plan);
  Result ignored{};
  if (chunks_.alone() != 0) (void)Waking(bedroom_, lock, {}).run({address}, ignored);
  saved_.forget();
  last_error() = cause;
}

/// Plans, from scratch, which chunks go, and what is saved of them.
void Sleeper::plan_sleep(Plan& plan, const Range& block, bool saves) const {
  plan = {};
  plan.is_part = true;
  for_own_chunks(block, [&](Chunk* chunk) {
    if (chunk->old_mappings == 0) plan.add_chunk(chunk);
  });
  for (const SleepPlan::Batch& batch : plan.batches) {
    if (!saves) {
      plan.dropped += batch.size;
      continue;
    }
    plan.saved += batch.size;
    plan.runs.push_back({batch.start, batch.size, plan.backup_bytes});
    plan.backup_bytes += batch.size;
  }
  saved_.place(plan);
}

/// From here on the block's free comes to free_block().
Status Sleeper::mark_alone(Range& block) {
  const Address address = block.address;
  alone_.try_emplace(address, 0);
  if (add_mark(block)) return kSuccess;
  alone_.erase(address);
  return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
}

/// The block is awake: its free need not be noticed any more.
void Sleeper::end_alone(Address address) noexcept {
  const auto known = alone_.find(address);
  if (known == alone_.end()) return;
  pool_.space_.store.keep_promise(known->second);
  alone_.erase(known);
  remove_mark(address);
}

/// From here on a free of the block comes to the pool's lock. False if it has been freed.
bool Sleeper::add_mark(Range& block) noexcept {
  const std::lock_guard owner_lock(owner_of(block)->lock);
  const bool is_live = block.is(State::live);
  if (is_live) block.add_marks(kKept);
  return is_live;
}

/// A free of the block need not come to the pool's lock any more, unless something else still asks for it.
void Sleeper::remove_mark(Address address) noexcept {
  Range* block = find_live(address);
  if (block == nullptr || keep_.contains(address) || is_alone(address) || watched_.contains(address)) return;
  const std::lock_guard owner_lock(owner_of(*block)->lock);
  if (block->is(State::live)) block->remove_marks(kKept);
}

/// Wakes a block that sleeps, alone or with its pool, and has its turn.
Status Sleeper::wake_one(Lock& lock, Address address, const SleepOptions& options, Result& result) {
  const bool is_alone = is_awake();
  const bool is_new = hooks_.owe(address);
  const uint64_t start = device_.raw().now_ns();
  Result own{};
  Status status = kSuccess;
  {
    const Transit transit(*this, is_alone ? address : 0);
    if (!is_alone) state_ = GPUPOOL_SLEEP_STATE_WAKING;  // until the turn ends
    status = attempt([&] { return Waking(bedroom_, lock, options).run({address}, own); });
    if (status == kSuccess && is_alone) end_alone(address);
  }
  if (status != kSuccess) {
    if (is_new) hooks_.forget(address);
    return status;
  }
  if (find_live(address) == nullptr) hooks_.forget(address);
  if (is_alone) {
    if (options.retain_backup) saved_.keep_all();
    saved_.release(lock);
  } else {
    has_woken_blocks_ = true;
  }
  own.nanoseconds = device_.raw().now_ns() - start;
  add_to(result, own);
  return hooks_.after_map(lock, pool_.handle_, address);
}

/// Somebody needs this block: those that nobody has asked for go to sleep before it.
void Sleeper::note_taken(Address address) noexcept {
  const Range* block = find_live(address);
  if (block == nullptr) return;
  for_own_chunks(*block, [&](Chunk* chunk) { chunk->serial = pool_.space_.next_serial(); });
}

/// In an awake pool: wakes one block after another.
Status Sleeper::wake_alone(Lock& lock, const SleepOptions& options, Result& result) {
  std::vector<Address> blocks;
  blocks.reserve(alone_.size());
  for (const auto& [address, records] : alone_) blocks.push_back(address);
  std::sort(blocks.begin(), blocks.end());
  for (const Address address : blocks) {
    const Range* block = find_live(address);
    if (block == nullptr || !is_asleep(*block)) continue;
    if (const Status status = wake_one(lock, address, options, result); status != kSuccess) return status;
  }
  return tell_awake(lock);
}

/// Tells the caller of all that is there again, but not of what was freed.
Status Sleeper::tell_awake(Lock& lock) {
  hooks_.forget_if([&](Address block) { return block != 0 && find_live(block) == nullptr; });
  return hooks_.after_map_all(lock, pool_.handle_);
}

/// Frees a block of which chunks may be asleep to its heap: their addresses become bare. While the pool
/// wakes, they may be in its plan, and it sees to that at the end.
void Sleeper::free_block(Range& block) noexcept {
  const Address address = block.address;
  if (transit_ == address) {
    freed_ = &block;
    return;
  }
  const Address end = block.end();
  const Region& region = *block.region;
  StreamHeap& heap = heap_of(block);
  const auto known = alone_.find(address);
  const size_t records = known->second;
  alone_.erase(known);
  hooks_.forget(address);
  heap.free(&block, heap.state().order.stamp());
  if (state_ != GPUPOOL_SLEEP_STATE_WAKING) {
    pool_.space_.store.keep_promise(records);
    chunks_.drop_freed(region, address, end);
    saved_.forget(address, end);
  } else {
    freed_records_ += records;
  }
}

/// The pool is awake. What was freed of the blocks that sleep alone, while it was not, is dropped now.
void Sleeper::become_awake() noexcept {
  state_ = GPUPOOL_SLEEP_STATE_AWAKE;
  if (freed_records_ == 0) return;
  pool_.space_.store.keep_promise(std::exchange(freed_records_, 0));
  for (const Region& region : pool_.space_.regions) {
    chunks_.drop_freed(region, region.base, region.base + region.pages.size() * kGranule);
  }
  saved_.forget();
}

}  // namespace gpupool::internal
