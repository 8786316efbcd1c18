// SPDX-License-Identifier: Apache-2.0
// Who holds the memory: samples, and what a recording is told.
//
// Nothing here is on the hot path. A malloc comes here because the counters, which compare with a level
// anyway, were told to look out for it. A free comes here because the tag, which it compares anyway, says
// that the block takes the long way.
#include "pool/watch.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <tuple>

#include "base/size_text.hpp"
#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal {
namespace {

/// Counts the changes of what is to be seen, from 1, since caches start at 0.
constinit std::atomic<uint32_t> epoch{1};

/// Allocates only while a recording is on.
void watch_anew(const std::vector<std::shared_ptr<Pool>>& pools) {
  epoch.fetch_add(1);
  for (const auto& pool : pools) pool->watch_anew();
}

std::string short_age(uint64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  char text[32];
  if (seconds < 120) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  }
  return text;
}

template <size_t Size>
void copy_to(char (&to)[Size], const std::string& from) noexcept {
  const size_t length = std::min(from.size(), Size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

}  // namespace

Status start_recording(const char* path, uint32_t flags) {
  constexpr uint32_t kKnown = GPUPOOL_RECORD_NATIVE_STACKS | GPUPOOL_RECORD_LANGUAGE_STACKS;
  if ((flags & ~kKnown) != 0)
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "flags are 0x%x, but only 0x%x are known", flags, kKnown);
  const StackKinds stacks{(flags & GPUPOOL_RECORD_NATIVE_STACKS) != 0,
                          (flags & GPUPOOL_RECORD_LANGUAGE_STACKS) != 0};
  const auto before = Registry::instance().all();
  if (const Status status = Recorder::start(path, stacks); status != kSuccess) return status;
  try {
    watch_anew(Registry::instance().all());  // new ones may have come
  } catch (const std::bad_alloc&) {
    Recorder::discard();
    watch_anew(before);
    throw;
  }
  return kSuccess;
}

// Pools are listed before anything changes, since nothing may need memory afterwards.

Status stop_recording() {
  const auto pools = Registry::instance().all();
  if (const Status status = Recorder::stop(); status != kSuccess) return status;
  watch_anew(pools);
  return kSuccess;
}

void sample_every(uint64_t bytes) {
  const auto pools = Registry::instance().all();
  set_sample_distance(bytes);
  watch_anew(pools);
}

// ---- mallocs

/// Sees whether a malloc has to be reported. Called under the lock of its cache, as the last step with its
/// block there.
Sighting Pool::see_malloc(ThreadCache& cache, Range& block) noexcept {
  CounterShard& counters = cache.counters;
  const uint64_t live = counters.live_bytes();
  const uint32_t now = epoch.load(std::memory_order_relaxed);
  if (cache.watch_epoch != now || !sampler_.is_drawn(cache.marks)) {
    cache.watch_epoch = now;
    sampler_.draw(cache.marks, live - block.size);
    counters.watch_for(Recorder::is_on(), cache.marks.next);
  }
  Sighting seen;
  seen.is_sampled = counters.is_above_level();
  seen.is_recorded = counters.watches_all();
  if (!seen.is_sampled && !seen.is_recorded) return seen;
  seen.address = block.address;
  seen.bytes = block.size;
  seen.requested = block.requested();
  seen.stream = heap_of(block).state().order.stream();
  if (seen.is_recorded) seen.time = Recorder::now();
  if (seen.is_sampled) {
    seen.mean = cache.marks.mean;
    seen.thinned = cache.marks.thinned;
    sampler_.pass_mark(cache.marks, live);
    counters.watch_for(counters.watches_all(), cache.marks.next);
  }
  if (seen.is_sampled) block.add_marks(kSampled);
  if (seen.is_recorded) block.add_marks(kRecorded);
  return seen;
}

/// Call it with no lock held, since the functions that take stacks may do what they like. Until its malloc
/// returns, nobody else has the block.
void Pool::tell_malloc(const Sighting& seen) noexcept {
  if (!seen.is_sampled && !seen.is_recorded) return;
  const uint64_t begun = seen.is_sampled ? clock_ns() : 0;
  const StackKinds recorded = seen.is_recorded ? kinds_to_take(Recorder::stacks()) : StackKinds{};
  // One stack serves both. Otherwise a call site would be two in a recording, since some of its mallocs are
  // samples.
  const bool has_recorded = recorded.native || recorded.language;
  const StackKinds kinds = has_recorded || !seen.is_sampled ? recorded : StackKinds{true, true};
  const StackId stack = kinds.native || kinds.language ? take_stack(kinds) : 0;
  const TagId tag = current_tag();
  if (seen.is_sampled) {
    sampler_.add({seen.address, seen.bytes, Sampler::weight_of(seen.bytes, seen.mean), seen.mean, seen.stream,
                  begun, stack, tag, seen.thinned, nullptr, nullptr},
                 clock_ns() - begun);
    if (tag != 0) show_again();
  }
  if (seen.is_recorded) {
    name_in_recording();
    const StackId wanted = has_recorded ? stack : 0;
    Recorder::write_named(
        {Happening::malloc, seen.time, id_, seen.stream, seen.address, seen.requested, tag, wanted});
  }
}

// ---- frees

/// Whether a free of the block may take the short way, apart from being watched. Under its cache's lock.
bool Pool::is_only_watched(const ThreadCache& cache, const Range& block, Address address,
                           Stream stream) noexcept {
  return owner_of(block) == &cache && block.is(State::live) && block.address == address &&
         block.has_only(kSampled | kRecorded) && heap_of(block).lane_stream() == stream &&
         cache.lanes.find(stream) != nullptr;
}

/// Removes the watchers' marks from a live block that is being freed, under the lock of its cache.
Sighting Pool::see_free(ThreadCache& cache, Range& block) noexcept {
  Sighting seen;
  if (!block.has_mark(kSampled | kRecorded)) return seen;
  seen.address = block.address;
  seen.stream = heap_of(block).state().order.stream();
  seen.is_recorded = block.has_mark(kRecorded);
  if (seen.is_recorded) seen.time = Recorder::now();
  if (block.has_mark(kSampled)) {
    sampler_.return_mark(cache.marks, block.address, cache.counters.live_bytes() - block.size, block.size);
    cache.counters.watch_for(cache.counters.watches_all(), cache.marks.next);
  }
  block.remove_marks(kSampled | kRecorded);
  return seen;
}

void Pool::tell_free(const Sighting& seen) const noexcept {
  if (seen.is_recorded) Recorder::write({Happening::free, seen.time, id_, seen.stream, seen.address, 0});
}

// ---- what else a recording is told

void Pool::name_in_recording() const noexcept {
  const uint32_t now = Recorder::generation();
  if (named_in_.load(std::memory_order_relaxed) == now || named_in_.exchange(now) == now) return;
  const DeviceInfo& info = device_.info();
  const uint64_t limit = ledger_.budget().own_limit();
  char text[256];
  std::snprintf(text, sizeof text, "%s:%d\n%s\n%" PRIu64 "\n%" PRIu64,
                info.backend == GPUPOOL_BACKEND_CUDA ? "cuda" : "sim", info.ordinal, info.name, info.total,
                limit == Budget::kNone ? 0 : limit);
  Recorder::name_pool(id_, text);
}

void Pool::record_use(const Range& block, Stream stream) const noexcept {
  if (!Recorder::is_on()) return;
  Recorder::write({Happening::use, Recorder::now(), id_, stream, block.address, 0});
}

void Pool::record_failure(uint64_t bytes) const noexcept {
  if (!Recorder::is_on()) return;
  name_in_recording();
  // Its tag may be one that no block has had; a tag's name needs no lock.
  Recorder::write_named({Happening::failed, Recorder::now(), id_, 0, 0, bytes, current_tag()});
}

/// What is there, for a recording that has just begun. Called with all caches locked. Leaves out blocks whose
/// mallocs the recording already has. If no recording is on, removes the marks of the last one.
std::vector<Entry> Pool::state_for_recording() {
  std::vector<Entry> events;
  const bool is_on = Recorder::is_on();
  const uint64_t time = Recorder::now();
  const auto add = [&](Happening kind, const StreamHeap& heap, Address address, uint64_t bytes) {
    events.push_back({kind, time, id_, heap.state().order.stream(), address, bytes});
  };
  for (const Region& region : space_.regions) {
    for_each_chunk(region, [&](const Chunk* chunk) {
      const bool is_away = chunk->asleep && chunk->handle == 0;
      if (is_on && !is_away)
        add(Happening::map, *static_cast<const StreamHeap*>(chunk->heap), chunk->address, chunk->size);
    });
    for (Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live) || range->owner() == nullptr) continue;
      if (!is_on) range->remove_marks(kRecorded);
      if (!is_on || range->has_mark(kRecorded)) continue;
      add(Happening::have, heap_of(*range), range->address, range->requested());
      range->add_marks(kRecorded);
    }
  }
  return events;
}

void Pool::watch_anew() {
  const Lock lock = enter();
  std::vector<Entry> events;
  {
    const Caches::AllLocked locked(caches_);
    caches_.for_each([&](ThreadCache& cache) {
      cache.watch_epoch = epoch.load(std::memory_order_relaxed);
      sampler_.draw(cache.marks, cache.counters.live_bytes());
      cache.counters.watch_for(Recorder::is_on(), cache.marks.next);
    });
    if (const uint32_t now = Recorder::generation(); stated_in_ != now) {
      events = state_for_recording();
      stated_in_ = now;
    }
  }
  if (Recorder::is_on()) name_in_recording();
  for (const Entry& event : events) Recorder::write(event);
}

// ---- holders

/// Live bytes by call site and tag, from the samples, the largest first. Call it with no lock held.
void Pool::holders(std::vector<gpupool_holder_t>& holders) {
  std::map<std::pair<StackId, TagId>, gpupool_holder_t> found;
  const uint64_t now = clock_ns();
  for (const Sample& sample : sampler_.all()) {
    gpupool_holder_t& holder = found[{sample.stack, sample.tag}];
    const uint64_t age = now - std::min(now, sample.born_ns);
    holder.live_bytes += sample.weight;
    holder.oldest_nanoseconds = std::max(holder.oldest_nanoseconds, age);
    holder.newest_nanoseconds = holder.samples == 0 ? age : std::min(holder.newest_nanoseconds, age);
    ++holder.samples;
  }
  holders.reserve(found.size());
  for (auto& [key, holder] : found) {
    copy_to(holder.tag, tag_name(key.second));
    copy_to(holder.stack, describe_stack(key.first));
    holders.push_back(holder);
  }
  std::sort(holders.begin(), holders.end(),
            [](const gpupool_holder_t& a, const gpupool_holder_t& b) { return a.live_bytes > b.live_bytes; });
}

/// "3.00 GiB of "kv cache" at serve.py:12 (load), the oldest for 12.0 s; ..."
std::string Pool::largest_holders(size_t count) {
  std::vector<gpupool_holder_t> all;
  holders(all);
  std::string text;
  for (const gpupool_holder_t& holder : all) {
    if (count-- == 0) break;
    const std::string stack = holder.stack;
    text += text.empty() ? "" : "; ";
    text += size_text(holder.live_bytes);
    if (holder.tag[0] != '\0') text += " of \"" + std::string(holder.tag) + "\"";
    if (!stack.empty()) text += " from " + stack.substr(0, stack.find('\n'));
    text += ", the oldest for " + short_age(holder.oldest_nanoseconds);
  }
  return text;
}

/// Adds who holds most to the message of a malloc that has failed. Call it with no lock held.
Status Pool::name_holders(Status status) {
  constexpr size_t kNamed = 3;
  ErrorRecord& record = last_error();
  const std::string text = largest_holders(kNamed);
  if (text.empty()) return status;
  const size_t length = std::strlen(record.message);
  std::snprintf(record.message + length, sizeof record.message - length, " Most is held by: %s.",
                text.c_str());
  return status;
}

}  // namespace gpupool::internal
