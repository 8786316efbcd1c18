// SPDX-License-Identifier: Apache-2.0
#include "frameworks/inject/ledger.hpp"

#include <gpupool/gpupool.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "watch/clock.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"

namespace gpupool::inject {

using internal::Entry;
using internal::EventKind;
using internal::Recorder;

constinit Ledger* Ledger::only_ = nullptr;

Ledger& Ledger::begin(internal::Plan plan, bool has_stacks) {
  only_ = new Ledger(std::move(plan), has_stacks);  // never destroyed: calls come until the very end
  Recorder::prepare({has_stacks, false}, []() noexcept { only_->take_turn(); });
  (void)internal::shown::read_switch();
  // A child finds whole records behind open locks, and records nothing.
  internal::os::watch_fork(
      [] {
        Recorder::lock_changes();
        only_->lock_.lock();
        internal::lock_tags();
        internal::lock_stacks();
        Recorder::lock();
      },
      [] {
        Recorder::unlock();
        internal::unlock_stacks();
        internal::unlock_tags();
        only_->lock_.unlock();
        Recorder::unlock_changes();
      },
      [] { only_->forget(); });
  // What the driver and its libraries give up on their way out is no news.
  (void)std::atexit([] { only_->stop(); });
  return *only_;
}

void Ledger::forget() {
  internal::os::forget_thread_id();
  Recorder::unlock();
  internal::unlock_stacks();
  internal::unlock_tags();
  Recorder::forget();
  internal::shown::forget_page();
  is_over_ = true;
  blocks_.clear();
  pools_.clear();
  lock_.unlock();
  Recorder::unlock_changes();
}

// ---- the recording

/// Begins the recording where that is still to be done. False: it has ended.
bool Ledger::is_open() {
  {
    const std::lock_guard lock(lock_);
    if (is_over_ || std::exchange(is_begun_, true)) return !is_over_;
  }
  const auto change = Recorder::begin_change();
  internal::avoid_earlier(plan_);
  const bool is_free = internal::check_is_free(plan_) == internal::kSuccess;
  if (is_free && start(std::move(plan_))) return true;
  end_with("nothing of the driver's memory is recorded");
  return false;
}

void Ledger::end_with(const char* what) {
  std::fprintf(stderr, "gpupool record: %s: %s\n", what, internal::last_error().message);
  const std::lock_guard lock(lock_);
  is_over_ = true;
}

/// Within a change. What is live is told once the lock is given up, since names of stacks are looked up for
/// it.
bool Ledger::start(internal::Plan plan) {
  std::vector<Entry> live;
  {
    const std::lock_guard lock(lock_);
    if (Recorder::start(std::move(plan)) != internal::kSuccess) return false;
    live.reserve(blocks_.size());
    for (const auto& [address, block] : blocks_) live.push_back(entry(EventKind::have, address, block));
  }
  for (const Entry& each : live) {
    name(static_cast<uint32_t>(each.pool));
    Recorder::write_named(each);
  }
  Recorder::begin_count();
  return true;
}

/// A ring's file makes way for the next one, unless another thread is at it.
void Ledger::take_turn() {
  const auto change = Recorder::try_change();
  if (!change.owns_lock() || !Recorder::is_part_due()) return;
  internal::Plan plan;
  {
    const std::lock_guard lock(lock_);
    Recorder::end();
  }
  if (Recorder::close_part(plan) == internal::kSuccess && start(std::move(plan))) return;
  end_with("the recording of the driver's memory has ended");
}

void Ledger::stop() {
  const auto change = Recorder::begin_change();
  {
    const std::lock_guard lock(lock_);
    is_over_ = true;
  }
  if (!Recorder::is_on()) return;
  Recorder::end();
  Recorder::close();
}

/// With no lock held. Once a recording, or again where it had no room.
void Ledger::name(uint32_t number) {
  const uint32_t recording = Recorder::generation();
  std::string words;
  {
    const std::lock_guard lock(lock_);
    Pool& pool = pools_[number];
    if (std::exchange(pool.named_in, recording) == recording) return;
    words = pool.words;
  }
  if (Recorder::name_pool(recording, number, words.c_str())) return;
  const std::lock_guard lock(lock_);
  pools_[number].named_in = 0;
}

/// With the lock, so that the events of an address are in the order of their times.
Entry Ledger::entry(EventKind kind, uint64_t address, const Block& block) const {
  return {
      kind,       Recorder::generation(), Recorder::now(), block.pool, block.stream, address, block.bytes, 0,
      block.stack};
}

// ---- pools

bool Ledger::knows(uint32_t pool) {
  const std::lock_guard lock(lock_);
  return pools_.contains(pool);
}

void Ledger::describe(uint32_t number, const DeviceWords& device) {
  constexpr const char* kWords[] = {"", ", pinned memory of the host", ", managed memory"};
  constexpr const char* kNames[] = {"driver", "driver: pinned", "driver: managed"};
  const uint32_t kind = (number - 1) % kMemoryKinds;
  const auto ordinal = static_cast<int32_t>((number - 1) / kMemoryKinds);
  Pool pool;
  pool.words = "cuda:" + std::to_string(ordinal) + '\n' + device.name + kWords[kind] + '\n' +
               std::to_string(kind == 0 ? device.total : 0) + "\n0";
  pool.figures.pool = number;
  pool.figures.backend = GPUPOOL_BACKEND_CUDA;
  pool.figures.device = ordinal;
  pool.figures.counts.device_total = device.total;
  // The host's memory is on no device.
  if (kind != static_cast<uint32_t>(MemoryKind::pinned))
    internal::shown::set_text(pool.figures.device_id, device.id);
  internal::shown::set_text(pool.figures.name, kNames[kind]);
  const std::lock_guard lock(lock_);
  const auto [at, is_new] = pools_.emplace(number, std::move(pool));
  if (is_new) at->second.slot = internal::shown::open_slot();
}

/// With the lock.
void Ledger::show(Pool& pool) noexcept {
  if (pool.slot == nullptr) return;
  pool.figures.shown_ns = internal::clock_ns();
  internal::shown::write(*pool.slot, wire::stats::SlotState::pool, pool.figures);
}

// ---- what the driver does

void Ledger::take(uint64_t address, const Block& block) {
  if (!is_open()) return;
  Entry event;
  {
    const std::lock_guard lock(lock_);
    const auto [at, is_new] = blocks_.emplace(address, block);
    if (!is_new && at->second.bytes == block.bytes) return;
    if (!is_new) {
      drop(at);
      blocks_.emplace(address, block);
    }
    Pool& pool = pools_[block.pool];
    wire::stats::Counts& counts = pool.figures.counts;
    ++counts.live_blocks;
    ++counts.misses;
    counts.reserved = counts.live += block.bytes;
    counts.reserved_peak = counts.live_peak = std::max(counts.live_peak, counts.live);
    show(pool);
    event = entry(EventKind::malloc, address, block);
  }
  name(block.pool);
  Recorder::write_named(event);
  Recorder::turn_if_due(event.time);
}

/// With the lock.
Ledger::Blocks::iterator Ledger::drop(Blocks::iterator at) {
  const Block& block = at->second;
  Pool& pool = pools_[block.pool];
  wire::stats::Counts& counts = pool.figures.counts;
  --counts.live_blocks;
  counts.reserved = counts.live -= block.bytes;
  show(pool);
  Entry event = entry(EventKind::free, at->first, block);
  event.stack = 0;
  Recorder::write(event);
  return blocks_.erase(at);
}

void Ledger::give(uint64_t address) {
  const std::lock_guard lock(lock_);
  if (const auto at = blocks_.find(address); at != blocks_.end()) drop(at);
}

void Ledger::give_mappings(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(lock_);
  for (auto at = blocks_.lower_bound(address); at != blocks_.end() && at->first - address < bytes;)
    at = at->second.context == nullptr ? drop(at) : std::next(at);
}

void Ledger::end_context(const void* context) {
  const std::lock_guard lock(lock_);
  for (auto at = blocks_.begin(); at != blocks_.end();)
    at = at->second.context == context ? drop(at) : std::next(at);
}

void Ledger::refuse(uint32_t number, uint64_t bytes) {
  if (!is_open()) return;
  name(number);
  {
    const auto no_change = Recorder::begin_change();
    const std::lock_guard lock(lock_);
    Pool& pool = pools_[number];
    ++pool.figures.counts.failed_mallocs;
    show(pool);
    Recorder::write({EventKind::failed, Recorder::generation(), Recorder::now(), number, 0, 0, bytes});
    Recorder::keep_failure();
  }
  Recorder::turn_if_due(Recorder::now());
}

}  // namespace gpupool::inject
