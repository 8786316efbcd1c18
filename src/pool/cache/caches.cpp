// SPDX-License-Identifier: Apache-2.0
#include "pool/cache/caches.hpp"

#include <new>
#include <utility>

namespace gpupool::internal {

Caches::~Caches() {
  for (const auto& cache : caches_) cache->lanes.for_each([](Lane& lane) { delete &lane; });
  while (spare_ != nullptr) delete pop_spare();
}

ThreadCache* Caches::open() {
  if (ThreadCache* cache = unused_) {
    unused_ = cache->next_unused;
    return cache;
  }
  caches_.push_back(std::make_unique<ThreadCache>());
  return caches_.back().get();
}

void Caches::close(ThreadCache* cache) noexcept {
  cache->next_unused = unused_;
  unused_ = cache;
}

void Caches::fold(Counters& counters) const noexcept {
  const AllLocked locked(*this);
  counters.fold([this](auto visit) { for_each([&](ThreadCache& cache) { visit(cache.counters); }); });
}

Amounts Caches::live() const noexcept {
  Amounts live;
  for_each_locked(
      [&](const ThreadCache& cache) { live += cache.counters.live()[0] + cache.counters.live()[1]; });
  return live;
}

Amounts Caches::pending() const noexcept {
  Amounts pending;
  for_each_locked([&](const ThreadCache& cache) {
    pending += cache.counters.pending()[0] + cache.counters.pending()[1];
  });
  return pending;
}

void Caches::lock_all() const noexcept {
  for (const auto& cache : caches_) cache->lock.lock();
}

void Caches::unlock_all() const noexcept {
  for (const auto& cache : caches_) cache->lock.unlock();
}

Range* Caches::drain(ThreadCache& cache, Stream stream, SizeGroup group, size_t& most) noexcept {
  Lane* lane = cache.lanes.find(stream);
  if (lane == nullptr) return nullptr;
  const std::lock_guard lock(cache.lock);
  return lane->bins.drain(group, most);
}

Range* Caches::pop_larger(ThreadCache& cache, Stream stream, uint64_t bytes) noexcept {
  Lane* lane = cache.lanes.find(stream);
  if (lane == nullptr) return nullptr;
  const std::lock_guard lock(cache.lock);
  return lane->bins.pop_larger(bytes);
}

Range* Caches::drain(ThreadCache& cache, size_t& most) noexcept {
  Range* list = nullptr;
  const std::lock_guard lock(cache.lock);
  cache.lanes.for_each([&](Lane& lane) { list = lane.drain(most, list); });
  return list;
}

Range* Caches::drain_resting(ThreadCache& cache, size_t& most) noexcept {
  Range* list = nullptr;
  const std::lock_guard lock(cache.lock);
  cache.lanes.for_each([&](Lane& lane) {
    for (const SizeGroup group : {SizeGroup::small, SizeGroup::large}) {
      if (!lane.bins.was_touched(group)) list = lane.bins.drain(group, most, list);
    }
  });
  return list;
}

void Caches::rest(ThreadCache& cache) noexcept {
  std::array<Stream, Lanes::kMost> idle;
  size_t idle_count = 0;
  Lane* left = nullptr;
  {
    const std::lock_guard lock(cache.lock);
    cache.lanes.for_each([&](Lane& lane) {
      if (lane.is_idle()) idle[idle_count++] = lane.stream;
      lane.bins.rest();
    });
    while (idle_count-- > 0) {
      Lane* lane = cache.lanes.close(idle[idle_count]);
      lane->next_spare = left;
      left = lane;
    }
  }
  while (left != nullptr) push_spare(*std::exchange(left, left->next_spare));
}

// ---- lanes

/// Keeps an empty lane that no cache has.
void Caches::push_spare(Lane& lane) noexcept {
  lane.next_spare = spare_;
  spare_ = &lane;
}

Lane* Caches::pop_spare() noexcept {
  Lane* lane = spare_;
  spare_ = lane->next_spare;
  return lane;
}

Range* Caches::open_lane(ThreadCache& cache, Stream stream) noexcept {
  Lanes& lanes = cache.lanes;
  if (stream == kNoLane || lanes.find(stream) != nullptr) return nullptr;
  Range* evicted = nullptr;
  if (lanes.is_full()) {
    Lane* victim = lanes.victim();
    size_t most = kAtATime;
    {
      const std::lock_guard lock(cache.lock);
      evicted = victim->drain(most);
      if (most != 0) lanes.close(victim->stream);
    }
    if (most == 0) return evicted;
    push_spare(*victim);
  } else if (spare_ == nullptr) {
    Lane* created = new (std::nothrow) Lane;
    if (created == nullptr) return nullptr;
    push_spare(*created);
    ++lane_count_;
  }
  Lane* lane = pop_spare();
  lane->count_down(kGranule);
  const std::lock_guard lock(cache.lock);
  lanes.open(stream, lane);
  return evicted;
}

Range* Caches::close_lane(ThreadCache& cache, Stream stream) noexcept {
  if (cache.lanes.find(stream) == nullptr) return nullptr;
  Lane* lane = nullptr;
  Range* list = nullptr;
  {
    const std::lock_guard lock(cache.lock);
    lane = cache.lanes.close(stream);
    size_t all = ~size_t{0};
    list = lane->drain(all);
  }
  push_spare(*lane);
  return list;
}

bool Caches::is_valid() const noexcept {
  bool valid = true;
  size_t lanes = 0;
  for (const auto& cache : caches_) {
    valid = valid && cache->lanes.is_valid();
    cache->lanes.for_each([&](const Lane& lane) {
      valid = valid && lane.bins.is_valid();
      ++lanes;
    });
  }
  for (const Lane* lane = spare_; lane != nullptr; lane = lane->next_spare, ++lanes) {
    valid = valid && lane->bins.empty() && lane->stream == kNoStream;
  }
  return valid && lanes == lane_count_;
}

}  // namespace gpupool::internal
