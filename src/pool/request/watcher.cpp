// SPDX-License-Identifier: Apache-2.0
#include "pool/request/watcher.hpp"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "pool/memory/pool_state.hpp"
#include "watch/busy_time.hpp"
#include "watch/clock.hpp"
#include "watch/sampler.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {
namespace {

/// Counts the changes of what is to be seen, from 1, since caches start at 0.
constinit std::atomic<uint32_t> epoch{1};

}  // namespace

void Watcher::begin_epoch() noexcept {
  epoch.fetch_add(1);
}

// ---- mallocs

// Where a recording is on, these are called for every malloc and free. What only samples need is apart, so
// that the common way saves no registers.

/// What a cache looks out for, drawn anew above `live` bytes.
[[gnu::noinline]] void Watcher::set_level(ThreadCache& cache, uint64_t live) noexcept {
  cache.watch_epoch = epoch.load(std::memory_order_relaxed);
  sampler_.draw(cache.marks, live);
  cache.counters.watch_for(Recorder::is_on(), cache.marks.next);
}

[[gnu::noinline]] void Watcher::pass_mark(ThreadCache& cache, WatchedCall& seen) noexcept {
  const bool is_spared = sparing_of_samples() == Sparing::time;
  const uint64_t now_ns = is_spared ? busy_time_ns() : 0;
  const uint64_t owed_ns = is_spared ? sample_budget().owed(now_ns) : 0;
  seen.mark = sampler_.pass_mark(cache.marks, cache.counters.live_bytes(), seen.bytes, owed_ns);
  seen.is_sampled = seen.mark.weight != 0;
  if (is_spared && !seen.is_sampled) sample_budget().spend_on_pass(now_ns);
  cache.counters.watch_for(cache.counters.watches_all(), cache.marks.next);
}

[[gnu::noinline]] void Watcher::return_mark(ThreadCache& cache, const Range& block) noexcept {
  sampler_.return_mark(cache.marks, block.address, cache.counters.live_bytes() - block.size, block.size);
  cache.counters.watch_for(cache.counters.watches_all(), cache.marks.next);
}

void Watcher::see_malloc(ThreadCache& cache, Range& block, WatchedCall& seen) noexcept {
  const CounterShard& counters = cache.counters;
  if (cache.watch_epoch != epoch.load(std::memory_order_relaxed) || !Sampler::is_drawn(cache.marks))
    set_level(cache, counters.live_bytes() - block.size);
  seen.bytes = block.size;
  if (counters.is_above_level()) pass_mark(cache, seen);
  seen.recording = counters.watches_all() ? Recorder::generation() : 0;
  if (!seen.is_sampled && seen.recording == 0) return;
  seen.address = block.address;
  seen.requested = block.requested();
  seen.stream = heap_of(block).state().order.stream();
  if (seen.recording != 0) seen.time = Recorder::now();
  block.add_marks(seen.is_sampled * kSampled | (seen.recording != 0) * kRecorded);
}

void Watcher::draw_if_due() noexcept {
  if (sparing_of_samples() != Sparing::time) return;
  const uint64_t now_ns = busy_time_ns();
  const uint64_t caches = pool_.caches.count();
  if (now_ns < drawn_until_ns_ || !sample_budget().take_turn(now_ns, caches)) return;
  drawn_until_ns_ = now_ns + (caches + 1) * SampleBudget::kRound;  // others have a turn first
  pool_.caches.for_each_locked([&](ThreadCache& cache) {
    if (cache.watch_epoch != 0) set_level(cache, cache.counters.live_bytes());
  });
}

void Watcher::tell_seen(const WatchedCall& seen) noexcept {
  const StackKinds stacks = Recorder::stacks();
  if (seen.is_sampled || (seen.recording != 0 && (stacks.native || stacks.language))) return tell_fully(seen);
  if (seen.recording != 0) record_malloc(seen, current_tag(), 0);
}

inline void Watcher::record_malloc(const WatchedCall& seen, TagId tag, StackId stack) const noexcept {
  name_in_recording();
  Recorder::write_named({EventKind::malloc, seen.recording, seen.time, pool_.id, seen.stream, seen.address,
                         seen.requested, tag, stack});
  Recorder::turn_if_due(seen.time);
}

/// Of a malloc that is sampled, or recorded with its stack.
[[gnu::noinline]] void Watcher::tell_fully(const WatchedCall& seen) noexcept {
  const uint64_t begun = seen.is_sampled ? clock_ns() : 0;
  const StackKinds recorded = seen.recording != 0 ? kinds_to_take(Recorder::stacks()) : StackKinds{};
  // One stack serves both. Otherwise a call site would be two in a recording, since some of its mallocs are
  // samples.
  const bool has_recorded = recorded.native || recorded.language;
  const StackKinds kinds = has_recorded || !seen.is_sampled ? recorded : StackKinds{true, true};
  const StackId stack = kinds.native || kinds.language ? take_stack(kinds) : 0;
  const TagId tag = current_tag();
  if (seen.is_sampled) {
    sampler_.add({seen.address, seen.bytes, seen.mark, seen.stream, begun, stack, tag, nullptr, nullptr});
    if (tag != 0) pool_.show_again();
    sample_budget().spend(busy_time_ns(), clock_ns() - begun, stack);
  }
  if (seen.recording != 0) record_malloc(seen, tag, has_recorded ? stack : 0);
}

// ---- frees

Lane* Watcher::lane_if_only_watched(const ThreadCache& cache, const Range& block, Address address,
                                    Stream stream) noexcept {
  const bool is_only_watched = owner_of(block) == &cache && block.is(State::live) &&
                               block.address == address && block.has_only(kSampled | kRecorded) &&
                               heap_of(block).lane_stream() == stream;
  return is_only_watched ? cache.lanes.find(stream) : nullptr;
}

WatchedCall Watcher::see_free(ThreadCache& cache, Range& block) noexcept {
  WatchedCall seen;
  if (!block.has_mark(kSampled | kRecorded)) return seen;
  seen.address = block.address;
  seen.stream = heap_of(block).state().order.stream();
  seen.recording = block.has_mark(kRecorded) ? Recorder::generation() : 0;
  if (seen.recording != 0) seen.time = Recorder::now();
  if (block.has_mark(kSampled)) return_mark(cache, block);
  block.remove_marks(kSampled | kRecorded);
  return seen;
}

void Watcher::tell_free(const WatchedCall& seen) const noexcept {
  if (seen.recording != 0)
    Recorder::write({EventKind::free, seen.recording, seen.time, pool_.id, seen.stream, seen.address, 0});
}

// ---- what else a recording is told

/// Once a recording, or again where it had no room.
[[gnu::noinline]] void Watcher::name_pool() const noexcept {
  const uint32_t now = Recorder::generation();
  if (named_in_.exchange(now) == now) return;
  const DeviceInfo& info = pool_.device.info();
  const uint64_t limit = pool_.ledger.budget().own_limit();
  char text[256];
  std::snprintf(text, sizeof text, "%s:%d\n%s\n%" PRIu64 "\n%" PRIu64, info.backend_name, info.ordinal,
                info.name, info.total, limit == Budget::kNone ? 0 : limit);
  if (!Recorder::name_pool(now, pool_.id, text)) named_in_.store(0);
}

void Watcher::record_use(const Range& block, Stream stream) const noexcept {
  if (!Recorder::is_on()) return;
  Recorder::write(
      {EventKind::use, Recorder::generation(), Recorder::now(), pool_.id, stream, block.address, 0});
}

void Watcher::record_failure(uint64_t bytes) const noexcept {
  const auto no_change = Recorder::begin_change();
  if (Recorder::is_on()) {
    name_in_recording();
    Recorder::write_named(
        {EventKind::failed, Recorder::generation(), Recorder::now(), pool_.id, 0, 0, bytes, current_tag()});
  }
  Recorder::keep_failure();
}

/// What is there, for a recording that has just begun. Called with all caches locked. Leaves out blocks whose
/// mallocs the recording already has. If no recording is on, removes the marks of the last one. Of a block
/// that is a sample, as all large ones are, it is known where its malloc was.
std::vector<Entry> Watcher::state_for_recording() const {
  std::vector<Entry> events;
  std::unordered_map<Address, const Sample*> samples;
  const std::vector<Sample> all = Recorder::is_on() ? sampler_.all() : std::vector<Sample>{};
  for (const Sample& each : all) samples.emplace(each.address, &each);
  const bool has_stacks = Recorder::stacks().native || Recorder::stacks().language;
  const uint32_t recording = Recorder::generation();
  const bool is_on = Recorder::is_on();
  const uint64_t time = Recorder::now();
  const auto add = [&](EventKind kind, const StreamHeap& heap, Address address, uint64_t bytes) {
    events.push_back({kind, recording, time, pool_.id, heap.state().order.stream(), address, bytes});
  };
  for (const Region& region : pool_.space.regions) {
    for_each_chunk(region, [&](const Chunk* chunk) {
      const bool is_away = chunk->asleep && chunk->handle == 0;
      if (is_on && !is_away)
        add(EventKind::map, *static_cast<const StreamHeap*>(chunk->heap), chunk->address, chunk->size);
    });
    for (Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live) || range->owner() == nullptr) continue;
      if (!is_on) range->remove_marks(kRecorded);
      if (!is_on || range->has_mark(kRecorded)) continue;
      add(EventKind::have, heap_of(*range), range->address, range->requested());
      if (const auto known = samples.find(range->address); known != samples.end()) {
        events.back().tag = known->second->tag;
        if (has_stacks) events.back().stack = known->second->stack;
      }
      range->add_marks(kRecorded);
    }
  }
  return events;
}

std::vector<Entry> Watcher::watch_anew() {
  if (Recorder::is_on()) name_in_recording();  // first: an event is no earlier than the thread's last one
  const Caches::AllLocked locked(pool_.caches);
  pool_.caches.for_each([&](ThreadCache& cache) { set_level(cache, cache.counters.live_bytes()); });
  const uint32_t now = Recorder::generation();
  return std::exchange(stated_in_, now) != now ? state_for_recording() : std::vector<Entry>{};
}

}  // namespace gpupool::internal
