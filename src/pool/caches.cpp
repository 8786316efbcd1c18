// SPDX-License-Identifier: Apache-2.0
#include "pool/caches.hpp"

#include <new>
#include <utility>

namespace gpupool::internal {

Caches::~Caches() {
  for (const auto& cache : caches_) cache->lanes.for_each([](Lane& lane) { delete &lane; });
  while (spare_ != nullptr) delete get_spare();
}

ThreadCache* Caches::attach() {
  if (ThreadCache* cache = unused_) {
    unused_ = cache->next_unused;
    return cache;
  }
  caches_.push_back(std::make_unique<ThreadCache>());
  return caches_.back().get();
}

void Caches::detach(ThreadCache* cache) noexcept {
  cache->next_unused = unused_;
  unused_ = cache;
}

void Caches::lock_all() const noexcept {
  for (const auto& cache : caches_) cache->lock.lock();
}

void Caches::unlock_all() const noexcept {
  for (const auto& cache : caches_) cache->lock.unlock();
}

Range* Caches::drain(ThreadCache& cache, Stream stream, Group group) noexcept {
  Lane* lane = cache.lanes.find(stream);
  if (lane == nullptr) return nullptr;
  const std::lock_guard lock(cache.lock);
  return lane->bins(group).drain();
}

Range* Caches::drain(ThreadCache& cache) noexcept {
  Range* list = nullptr;
  const std::lock_guard lock(cache.lock);
  for (const Group group : {Group::large, Group::small})
    cache.lanes.for_each([&](Lane& lane) { list = lane.bins(group).drain(list); });
  return list;
}

Range* Caches::drain_resting(ThreadCache& cache) noexcept {
  Range* list = nullptr;
  Lane* left = nullptr;
  {
    std::array<Stream, Lanes::kMost> idle;
    size_t idle_count = 0;
    const std::lock_guard lock(cache.lock);
    cache.lanes.for_each([&](Lane& lane) {
      bool is_idle = lane.empty();
      for (const Group group : {Group::large, Group::small}) {
        QuickBins& bins = lane.bins(group);
        const bool touched = bins.was_touched();
        is_idle = is_idle && !touched;
        if (!touched) list = bins.drain(list);
      }
      if (is_idle) idle[idle_count++] = lane.stream;
    });
    while (idle_count-- > 0) {
      Lane* lane = cache.lanes.close(idle[idle_count]);
      lane->next_spare = left;
      left = lane;
    }
  }
  while (left != nullptr) put_spare(*std::exchange(left, left->next_spare));
  return list;
}

// ---- lanes

/// Takes in an empty lane that no cache has.
void Caches::put_spare(Lane& lane) noexcept {
  lane.next_spare = spare_;
  spare_ = &lane;
}

Lane* Caches::get_spare() noexcept {
  Lane* lane = spare_;
  spare_ = lane->next_spare;
  return lane;
}

Range* Caches::open_lane(ThreadCache& cache, Stream stream) noexcept {
  Lanes& lanes = cache.lanes;
  if (stream == kNameless || lanes.find(stream) != nullptr) return nullptr;
  Range* evicted = nullptr;
  if (lanes.is_full()) {
    evicted = close_lane(cache, lanes.victim()->stream);
  } else if (spare_ == nullptr) {
    Lane* created = new (std::nothrow) Lane;
    if (created == nullptr) return nullptr;
    put_spare(*created);
    ++lane_count_;
  }
  Lane* lane = get_spare();
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
    list = lane->drain();
  }
  put_spare(*lane);
  return list;
}

bool Caches::is_valid() const noexcept {
  bool valid = true;
  size_t lanes = 0;
  for (const auto& cache : caches_) {
    valid = valid && cache->lanes.is_valid();
    cache->lanes.for_each([&](const Lane&) { ++lanes; });
  }
  for (const Lane* lane = spare_; lane != nullptr; lane = lane->next_spare, ++lanes) {
    valid = valid && lane->empty() && lane->stream == kNoStream;
  }
  return valid && lanes == lane_count_;
}

}  // namespace gpupool::internal
