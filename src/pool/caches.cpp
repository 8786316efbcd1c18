// SPDX-License-Identifier: Apache-2.0
#include "pool/caches.hpp"

namespace gpupool::internal {

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
  const std::lock_guard lock(cache.lock);
  Lane& lane = cache.lane_of(stream);
  return lane.stream == stream ? lane.bins(group).drain() : nullptr;
}

Range* Caches::drain(ThreadCache& cache) noexcept {
  Range* list = nullptr;
  const std::lock_guard lock(cache.lock);
  for (const Group group : {Group::large, Group::small}) {
    for (size_t i = cache.lanes.size(); i-- > 0;) list = cache.lanes[i].bins(group).drain(list);
  }
  return list;
}

Range* Caches::drop_lane(ThreadCache& cache, Stream stream) noexcept {
  const std::lock_guard lock(cache.lock);
  Lane& lane = cache.lane_of(stream);
  if (lane.stream != stream) return nullptr;
  lane.stream = kNoStream;
  return lane.drain();
}

}  // namespace gpupool::internal
