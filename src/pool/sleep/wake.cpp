// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/wake.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <optional>

#include "os/process.hpp"
#include "pool/debug/debugger.hpp"
#include "pool/memory/backing.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/source.hpp"
#include "pool/request/ask_group.hpp"
#include "pool/request/helpers.hpp"
#include "pool/request/oom_handler.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/sleep/asleep_chunks.hpp"
#include "pool/sleep/saved_bytes.hpp"

namespace gpupool::internal {
namespace {

using Clock = std::chrono::steady_clock;

/// How long to sleep between two looks for memory that others give back.
constexpr std::chrono::milliseconds kLook{1};

/// How often the pause after a collision may double.
constexpr uint32_t kMostDoublings = 3;

/// How long to wait after the room that was seen went to others, who may be wakes of other processes and have
/// failed as well: by chance, since those that wait as long as each other meet again; and longer, the longer
/// a try takes and the more of them have failed.
Clock::duration pause_after(Clock::duration tried, uint32_t collisions) noexcept {
  constexpr unsigned kBits = 16;
  const auto now = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  const size_t chance = hash_to(kBits, now ^ os::process_id() << 40);
  return tried * (1 << std::min(collisions, kMostDoublings)) * static_cast<Clock::rep>(chance) / (1 << kBits);
}

Clock::time_point deadline_after(uint64_t nanoseconds) noexcept {
  constexpr uint64_t kLongest = uint64_t{365} * 24 * 3600 * 1'000'000'000;
  return Clock::now() + std::chrono::nanoseconds(std::min(nanoseconds, kLongest));
}

}  // namespace

Status Waking::run(Part part, Result& result) {
  const Clock::time_point deadline = deadline_after(options_.timeout_ns);
  WakePlace place(in_.slept_at);
  interrupts::Patience patience(GPUPOOL_WAIT_MEMORY);
  uint32_t collisions = 0;
  for (uint32_t attempt = 0;; ++attempt) {
    Clock::duration rest = kLook;
    Plan plan;
    if (part.block == 0) {
      in_.chunks.detach_freed();
      in_.chunks.coarsen();
      plan_wake(plan, part.is_own);
    } else if (const Status status = plan_block(plan, part.block); status != kSuccess) {
      return status;
    }
    // Who has no time left takes what there is.
    const bool is_last = Clock::now() >= deadline;
    const Scarce ahead = is_last || plan.missing == 0 ? 0 : place.find_ahead(needs());
    if (ahead != 0) {
      place.wait_for(ahead);
      const Status waited = pause(patience, std::min(deadline, Clock::now() + kLook));
      if (waited != kSuccess) return waited;
      continue;
    }
    Status status = plan.runs.empty() && options_.fill < 0 ? kSuccess : in_.saved.open_streams();
    if (status == kSuccess) status = charge_room(plan.missing);
    if (status == kSuccess) {
      const uint64_t created = plan.missing;
      const Clock::time_point start = Clock::now();
      if (collisions != 0) status = create_all(plan);
      if (status == kSuccess) status = restore_all(plan);
      if (status == kSuccess) {
        result.created_bytes = created;
        result.saved_bytes = plan.saved;
        result.dropped_bytes = plan.dropped;
        return kSuccess;
      }
      // Others took the room that was there.
      rest += pause_after(Clock::now() - start, ++collisions);
    }
    if (!is_shortage(status) || interrupts::has_given_up()) return status;
    if (in_.handler.ask(lock_, plan.missing, attempt + 1)) continue;
    if (is_last) return status;
    place.wait_for(scarce_after(status, plan.missing));
    // Others' sleeps, wakes and destroys are no news to this pool: it has to look.
    const Status waited = pause(patience, std::min(deadline, Clock::now() + rest));
    if (waited != kSuccess) return waited;
  }
}

/// Until somebody tells of a change, or a moment.
Status Waking::pause(interrupts::Patience& patience, Clock::time_point until) {
  if (is_over(patience, lock_)) return interrupts::give_up();
  in_.pool.gate.changed.wait_until(lock_, until);
  return kSuccess;
}

/// All that a wake takes from: the device, the limit, and what the group leaves of it.
std::array<Scarce, 3> Waking::needs() const noexcept {
  constexpr Scarce kIsDevice = Scarce{1} << 63;  // the others are addresses
  const DeviceInfo& device = in_.pool.device.info();
  const GroupLimit* group = in_.pool.group.limit;
  return {kIsDevice | static_cast<Scarce>(device.backend) << 32 | static_cast<uint32_t>(device.ordinal),
          reinterpret_cast<uintptr_t>(in_.pool.ledger.budget().shared().get()),
          group != nullptr ? reinterpret_cast<uintptr_t>(&group->member()) : 0};
}

/// Which of them was short.
Scarce Waking::scarce_after(Status shortage, uint64_t bytes) const noexcept {
  const auto [device, limit, group] = needs();
  if (shortage != GPUPOOL_ERROR_OVER_LIMIT) return device;
  return group != 0 && in_.pool.ledger.budget().own_room() >= bytes ? group : limit;
}

/// What is asleep, and what was saved of it: of the blocks that are still live.
void Waking::plan_wake(Plan& plan, bool is_own) const {
  plan.add_chunks(in_.pool.space, in_.pool.backing,
                  [&](const Chunk& chunk) { return chunk.asleep && !(is_own && chunk.alone); });
  for (const Region& region : in_.pool.space.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live) && in_.chunks.are_in(*range)) add_contents(plan, *range);
    }
  }
  for (auto* runs : {&plan.runs, &plan.dropped_runs}) {
    std::sort(runs->begin(), runs->end(),
              [](const SavedRun& a, const SavedRun& b) { return a.address < b.address; });
  }
  plan.count_contents();
}

/// Adds what was saved of a live block, and what was not.
void Waking::add_contents(Plan& plan, const Range& range) const {
  Address done = range.address;
  const auto drop_until = [&](Address end) {
    if (done < end) plan.dropped_runs.push_back({done, end - done, 0});
  };
  (void)for_parts(in_.saved.runs(), {range.address, range.size},
                  [&](Address address, uint64_t size, uint64_t offset) {
                    drop_until(address);
                    done = address + size;
                    if (!plan.runs.empty()) {
                      SavedRun& last = plan.runs.back();
                      if (last.address + last.size == address && last.offset + last.size == offset) {
                        last.size += size;
                        return kSuccess;
                      }
                    }
                    plan.runs.push_back({address, size, offset});
                    return kSuccess;
                  });
  drop_until(range.end());
}

/// The chunks of one block that are asleep, and what was saved of all that is in them.
Status Waking::plan_block(Plan& plan, Address address) {
  const Range* block = find_live(in_.pool.space, address);
  // It may have been freed since the lock was given up.
  if (block == nullptr) return not_a_block(in_.pool.space, address);
  plan.is_part = true;
  in_.chunks.coarsen(*block);
  for_chunks(*block->region, block->address, block->end(), [&](Chunk* chunk) {
    if (chunk->asleep) plan.add_chunk(chunk);
  });
  if (plan.batches.empty()) return kSuccess;
  const Range* range = block;
  while (range->prev != nullptr && range->address > plan.batches.front().start) range = range->prev;
  const Address end = plan.batches.back().start + plan.batches.back().size;
  for (; range != nullptr && range->address < end; range = range->next) {
    if (range->is(State::live)) add_contents(plan, *range);
  }
  plan.count_contents();
  return kSuccess;
}

/// For a block of an awake pool: releases what the pool itself has cached, up to `bytes`.
void Waking::release_cached(uint64_t bytes) {
  if (!in_.pool.gate.is_awake()) return;
  in_.reclaimer.drain_all(lock_);
  in_.reclaimer.settle_all_pending(lock_);
  const uint64_t used = in_.pool.ledger.used();
  bool blocked = false;
  const uint64_t target = used - std::min(used, bytes);
  (void)in_.source.release(lock_, target, true, blocked);
  if (!blocked || in_.pool.ledger.used() <= target) return;
  (void)in_.reclaimer.wait_for_frees(lock_, "a wake", false);
  if (in_.pool.gate.is_awake()) (void)in_.source.release(lock_, target, true, blocked);
}

/// Takes `bytes` from the limit, where the device has them too, after other pools' caches are emptied, and
/// pools put to sleep that may be.
Status Waking::charge_room(uint64_t bytes) {
  if (in_.pool.ledger.budget().room() < bytes) release_cached(bytes);
  Status status = try_charge(bytes);
  if (status == kSuccess) return status;
  std::optional<share::Turn> turn;  // until the memory is taken
  make_room(bytes, status, turn);
  status = try_charge(bytes);
  turn.reset();
  for (uint32_t i = 0; i < kMostSleeps && status != kSuccess; ++i) {
    if (!in_.helpers.put_to_sleep(lock_, in_.pool, bytes, status)) break;
    status = try_charge(bytes);
  }
  if (status != kSuccess || !interrupts::has_given_up()) return status;
  in_.pool.ledger.budget().refund(bytes);
  return interrupts::give_up();
}

Status Waking::try_charge(uint64_t bytes) {
  Budget& budget = in_.pool.ledger.budget();
  if (!budget.charge(bytes)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT,
                "waking needs %" PRIu64 " bytes, and %" PRIu64 " are left of the limit of %" PRIu64, bytes,
                budget.room(), budget.limit());
  }
  uint64_t free = 0;
  if (in_.pool.device.raw().free_memory(free) != kSuccess || free >= bytes) return kSuccess;
  budget.refund(bytes);
  return fail(GPUPOOL_ERROR_OUT_OF_MEMORY,
              "waking needs %" PRIu64 " bytes, and the device has %" PRIu64 " free", bytes, free);
}

/// What others keep without need comes back.
void Waking::make_room(uint64_t bytes, Status shortage, std::optional<share::Turn>& turn) {
  const Budget& budget = in_.pool.ledger.budget();
  if (shortage == GPUPOOL_ERROR_OVER_LIMIT) {
    if (in_.pool.group.limit == nullptr || budget.own_room() < bytes) return;
  } else {
    release_cached(bytes);
  }
  in_.helpers.empty(lock_, in_.pool);
  if (shortage != GPUPOOL_ERROR_OVER_LIMIT || budget.room() < bytes)
    (void)ask_group(lock_, in_.pool, bytes, turn);
}

/// Creates all before anything is mapped: mapping takes most of the time, and while it lasts others would
/// begin to wake in the same room.
Status Waking::create_all(Plan& plan) {
  Status status = kSuccess;
  for (size_t i = 0; i < plan.entries.size() && status == kSuccess; ++i)
    status = in_.chunks.create(plan, plan.entries[i]);
  if (status != kSuccess) in_.chunks.undo_restore(plan, in_.saved.has_copies_pending());
  return status;
}

/// Creates, maps and fills, a batch being copied while the next is mapped.
Status Waking::restore_all(Plan& plan) {
  Status status = kSuccess;
  for (size_t i = 0; i < plan.batches.size() && status == kSuccess; ++i) {
    status = in_.chunks.restore_batch(plan, plan.batches[i]);
    if (status != kSuccess || plan.runs.empty()) continue;
    status = lock_.give_up_for([&] { return in_.saved.copy_batch(plan, plan.batches[i], i, false); });
  }
  // A graph needs all of its memory: what its mappings lead to comes with the last block.
  if (status == kSuccess && !plan.is_part) status = in_.chunks.map_old();
  if (status == kSuccess && options_.fill >= 0) status = fill_dropped(plan, options_.fill);
  for (Batch& batch : plan.batches) {
    if (status == kSuccess) status = in_.saved.wait_for_batch(lock_, batch);
  }
  if (status == kSuccess) {
    in_.chunks.commit(plan);
    if (in_.debugger != nullptr) {
      for (const SavedRun& run : plan.dropped_runs) in_.debugger->renew_canaries(run.address, run.size);
    }
    // A sleeping pool's runs may be of several blocks.
    if (!plan.is_part || in_.pool.gate.is_awake()) in_.saved.forget();
    return kSuccess;
  }
  in_.saved.abandon(lock_, plan);
  in_.chunks.undo_restore(plan, in_.saved.has_copies_pending());
  return status;
}

Status Waking::fill_dropped(Plan& plan, int value) {
  if (plan.dropped_runs.empty()) return kSuccess;
  plan.batches.push_back({});
  return lock_.give_up_for([&] { return in_.saved.fill(plan, value); });
}

}  // namespace gpupool::internal
