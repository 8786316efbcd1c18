// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/sleep_block.hpp"

#include <cinttypes>

#include "base/defer.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/exports.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/protections.hpp"
#include "pool/memory/source.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/sleep/asleep_chunks.hpp"
#include "pool/sleep/fall_asleep.hpp"
#include "pool/sleep/lone_blocks.hpp"
#include "pool/sleep/saved_bytes.hpp"
#include "pool/sleep/sleep_hooks.hpp"
#include "pool/sleep/sleep_parts.hpp"
#include "pool/sleep/wake.hpp"

namespace gpupool::internal {

Status check_own(SleepContext& in, Address block) {
  (void)in.reclaimer.settle_exports(true);
  if (const Address exported = in.exports.find(block); exported != 0) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "exported blocks cannot sleep, and 0x%" PRIx64 " is one: free it, and let others close it",
                exported);
  }
  const Address guarded = in.protections.find(block);
  if (guarded == 0) return kSuccess;
  return fail(GPUPOOL_ERROR_UNSUPPORTED, "protected blocks cannot sleep, and 0x%" PRIx64 " is one", guarded);
}

Status BlockSleep::sleep(Address address, Result& result) {
  const Range* block = find_live(in_.pool.space, address);
  if (block == nullptr) return not_a_block(in_.pool.space, address);
  if (in_.chunks.are_in(*block)) return kSuccess;
  if (!in_.pool.gate.is_awake()) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "the block at 0x%" PRIx64 " was woken in a pool that is asleep: wake the pool first",
                address);
  }
  if (const Status status = check_no_capture(in_.pool.streams); status != kSuccess) return status;
  bool any = false;
  for_own_chunks(*block, [&](const Chunk*) { any = true; });
  if (!any) return kSuccess;
  if (const Status status = agree(address); status != kSuccess) return status;
  const uint64_t start = in_.pool.device.now_ns();
  Result own{};
  const Status status = without_throwing([&] { return put_to_sleep(address, own); });
  in_.saved.release(lock_);  // what a failure leaves, or old mappings that went meanwhile
  tell_if_awake(address);
  if (status != kSuccess) return status;
  result = own;
  result.nanoseconds = in_.pool.device.now_ns() - start;
  return kSuccess;
}

Status BlockSleep::agree(Address address) {
  const bool is_new = in_.hooks.owe(address);
  const Status status = in_.hooks.before_release(lock_, in_.pool.handle, address);
  if (status != kSuccess && is_new) in_.hooks.forget(address);
  return status;
}

void BlockSleep::tell_if_awake(Address address) {
  const KeepError keep_error;
  const interrupts::Off off;
  const Range* block = find_live(in_.pool.space, address);
  if (block == nullptr) {
    in_.hooks.forget(address);
  } else if (!in_.chunks.are_in(*block)) {
    (void)in_.hooks.after_map(lock_, in_.pool.handle, address);
  }
}

/// Everything from awake to asleep. On failure the block is awake, unless even the way back fails.
Status BlockSleep::put_to_sleep(Address address, Result& result) {
  Range* block = find_live(in_.pool.space, address);
  if (block == nullptr) return not_a_block(in_.pool.space, address);
  if (const Status status = check_own(in_, address); status != kSuccess) return status;
  if (const Status status = in_.blocks.mark(*block); status != kSuccess) return status;
  const LoneBlocks::Transit transit(in_.blocks, in_.reclaimer, address);
  // If the block stays awake, it is like any other again.
  const Defer leave([&] {
    if (!has_asleep(*block)) in_.blocks.end(address);
  });
  FallAsleep falling(in_, lock_, options_);
  Plan plan;
  plan_sleep(plan, *block, falling.saves(*block));
  if (const Status status = in_.saved.prepare(lock_, plan); status != kSuccess) return status;
  if (const Status status = falling.wait_for_work(); status != kSuccess) return status;
  in_.source.settle();
  return save_and_unmap(*block, result);
}

Status BlockSleep::save_and_unmap(const Range& block, Result& result) {
  const Address address = block.address;
  FallAsleep falling(in_, lock_, options_);
  Plan plan;
  plan_sleep(plan, block, falling.saves(block));
  if (plan.entries.empty()) return kSuccess;
  // More than before, if old mappings have gone meanwhile.
  if (const Status status = in_.saved.prepare(lock_, plan); status != kSuccess) return status;
  // The last that may throw: nothing may once copies are queued.
  in_.saved.reserve(plan.runs.size());
  const size_t records = 2 * plan.entries.size() + 1;
  in_.blocks.promise(address, records);
  if (const Status status = falling.save_runs(plan); status != kSuccess) return status;
  if (!block.is(State::live)) {
    in_.saved.abandon(lock_, plan);
    return not_a_block(in_.pool.space, address);
  }
  in_.saved.add(plan.runs);
  if (const Status status = falling.unmap_and_release(plan); status != kSuccess) {
    undo(plan, address);
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
void BlockSleep::undo(Plan& plan, Address address) {
  const KeepError keep_error;
  const interrupts::Off off;
  in_.saved.abandon(lock_, plan);
  Result ignored{};
  if (in_.chunks.alone() != 0) (void)Waking(in_, lock_, {}).run({address}, ignored);
  in_.saved.forget();
}

/// Plans, from scratch, which chunks go, and what is saved of them.
void BlockSleep::plan_sleep(Plan& plan, const Range& block, bool saves) const {
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
  in_.saved.place(plan);
}

Status BlockSleep::wake(Address address, Result& result) {
  const bool is_alone = in_.pool.gate.is_awake();
  const bool is_new = in_.hooks.owe(address);
  const uint64_t start = in_.pool.device.now_ns();
  Result own{};
  Status status = kSuccess;
  {
    const LoneBlocks::Transit transit(in_.blocks, in_.reclaimer, is_alone ? address : 0);
    if (!is_alone) in_.pool.gate.state = GPUPOOL_SLEEP_STATE_WAKING;  // until the turn ends
    status = without_throwing([&] { return Waking(in_, lock_, options_).run({address}, own); });
    if (status == kSuccess && is_alone) in_.blocks.end(address);
  }
  if (status != kSuccess) {
    if (is_new) in_.hooks.forget(address);
    return status;
  }
  if (find_live(in_.pool.space, address) == nullptr) in_.hooks.forget(address);
  if (is_alone) {
    if (options_.retain_backup) in_.saved.keep_all();
    in_.saved.release(lock_);
  } else {
    in_.has_woken_blocks = true;
  }
  own.nanoseconds = in_.pool.device.now_ns() - start;
  add_to(result, own);
  return in_.hooks.after_map(lock_, in_.pool.handle, address);
}

void BlockSleep::note_taken(Address address) noexcept {
  const Range* block = find_live(in_.pool.space, address);
  if (block == nullptr) return;
  for_own_chunks(*block, [&](Chunk* chunk) { chunk->serial = in_.pool.space.next_serial(); });
}

Status BlockSleep::wake_all(Result& result) {
  for (const Address address : in_.blocks.all()) {
    const Range* block = find_live(in_.pool.space, address);
    if (block == nullptr || !in_.chunks.are_in(*block)) continue;
    const Status status = wake(address, result);
    // It may have been freed while its wake waited for room.
    if (status != kSuccess && status != GPUPOOL_ERROR_UNKNOWN_POINTER) return status;
  }
  in_.saved.release(lock_);  // also what was saved of blocks that were freed asleep
  return tell_awake();
}

Status BlockSleep::tell_awake() {
  in_.hooks.forget_if(
      [&](Address block) { return block != 0 && find_live(in_.pool.space, block) == nullptr; });
  return in_.hooks.after_map_all(lock_, in_.pool.handle);
}

}  // namespace gpupool::internal
