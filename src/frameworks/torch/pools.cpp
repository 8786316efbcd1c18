// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/pools.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace gpupool::torch {
namespace {

/// Created when this library is loaded, before anybody can call it, and never destroyed: PyTorch frees until
/// the very end of the process. The other library has registered its own locks by then, and fork takes locks
/// registered later first: this lock comes before all others.
TorchPools* const lasting_pools = [] {
  TorchPools* pools = new TorchPools;
  TorchPools::watch_fork();
  return pools;
}();

}  // namespace

TorchPools& TorchPools::instance() noexcept {
  return *lasting_pools;
}

void TorchPools::watch_fork() noexcept {
  pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                 [] { instance().mutex_.unlock(); });
}

/// Without the lock.
gpupool_status_t TorchPools::default_pool(int device, gpupool_t*& pool) {
  const gpupool_status_t status = gpupool_default_pool(device, &pool);
  if (status != GPUPOOL_SUCCESS || used_[device].load(std::memory_order_acquire)) return status;
  const std::lock_guard lock(mutex_);
  return meet_peers(device, pool);
}

// ---- several devices

/// Devices that cannot reach each other copy through the host; the driver does that.
gpupool_status_t TorchPools::open_to_peers(int device, gpupool_t* pool) {
  for (int peer = 0; peer < kDevices; ++peer) {
    if (peer == device || !used_[peer].load(std::memory_order_relaxed)) continue;
    const gpupool_status_t status = gpupool_enable_peer(pool, peer);
    if (status != GPUPOOL_SUCCESS && status != GPUPOOL_ERROR_UNSUPPORTED) return status;
  }
  return GPUPOOL_SUCCESS;
}

/// At the first use of a device, its pool gives the other devices in use access, and theirs give it access.
/// Children share the peers of their parent.
gpupool_status_t TorchPools::meet_peers(int device, gpupool_t* pool) {
  if (used_[device].load(std::memory_order_relaxed)) return GPUPOOL_SUCCESS;
  gpupool_status_t status = open_to_peers(device, pool);
  const auto open = [&](int other, gpupool_t* theirs) {
    if (other == device || status != GPUPOOL_SUCCESS) return;
    status = gpupool_enable_peer(theirs, device);
    if (status == GPUPOOL_ERROR_UNSUPPORTED) status = GPUPOOL_SUCCESS;
  };
  for (int other = 0; other < kDevices; ++other) {
    gpupool_t* theirs = nullptr;
    if (used_[other].load(std::memory_order_relaxed) &&
        gpupool_default_pool(other, &theirs) == GPUPOOL_SUCCESS)
      open(other, theirs);
  }
  if (status == GPUPOOL_SUCCESS) used_[device].store(true, std::memory_order_release);
  return status;
}

// ---- memory

gpupool_status_t TorchPools::malloc(uint64_t size, int device, void* stream, gpupool_ptr_t& ptr) {
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, pool); status != GPUPOOL_SUCCESS) return status;
  if (has_detours_.load(std::memory_order_acquire)) {
    settle();
    if (gpupool_t* graph = routed(device, stream)) pool = graph;
  }
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  return gpupool_malloc(pool, size, number, &ptr);
}

gpupool_status_t TorchPools::free(gpupool_ptr_t ptr, int device, void* stream) {
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, pool); status != GPUPOOL_SUCCESS) return status;
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  gpupool_status_t status = gpupool_free(pool, ptr, number);
  if (status == GPUPOOL_ERROR_UNKNOWN_POINTER && owned_count_.load(std::memory_order_acquire) != 0)
    status = free_in_graph(ptr, device, number, pool);
  if (status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) owe({pool, ptr, number, false});
  return status;
}

/// Where it is in a graph's pool, writes that pool. Forgets pools that ended with their last block.
gpupool_status_t TorchPools::free_in_graph(gpupool_ptr_t ptr, int device, gpupool_stream_t stream,
                                           gpupool_t*& pool) {
  const std::lock_guard lock(mutex_);
  for (auto each = owned_.begin(); each != owned_.end();) {
    const gpupool_status_t status =
        each->device == device ? gpupool_free(each->pool, ptr, stream) : GPUPOOL_ERROR_UNKNOWN_POINTER;
    if (status == GPUPOOL_SUCCESS || status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) {
      pool = each->pool;
      return status;
    }
    const bool is_over = status == GPUPOOL_ERROR_INVALID_ARGUMENT && each->is_destroyed;
    each = is_over ? owned_.erase(each) : std::next(each);
  }
  owned_count_.store(owned_.size(), std::memory_order_release);
  return GPUPOOL_ERROR_UNKNOWN_POINTER;
}

/// Graphs' pools keep what they have: their kernels may use it again.
void TorchPools::empty_all() {
  settle();
  for (int device = 0; device < kDevices; ++device) {
    gpupool_t* shared = nullptr;
    if (used_[device].load(std::memory_order_relaxed) &&
        gpupool_default_pool(device, &shared) == GPUPOOL_SUCCESS)
      (void)gpupool_empty(shared, nullptr);
  }
}

// ---- what the host had no memory for

void TorchPools::publish() noexcept {
  const bool is_owing = owed_count_ != 0 || is_end_owed_;
  is_owing_.store(is_owing, std::memory_order_release);
  has_detours_.store(is_owing || !routes_.empty(), std::memory_order_release);
}

void TorchPools::owe(const Owed& owed) noexcept {
  constexpr std::chrono::milliseconds kPause(1);
  for (;; std::this_thread::sleep_for(kPause)) {
    const std::lock_guard lock(mutex_);
    if (owed_count_ == kOwedMax) pay();
    if (owed_count_ == kOwedMax) continue;
    owed_[owed_count_++] = owed;
    publish();
    return;
  }
}

/// Frees what is owed. A tag's entry stays, because emptying its pool may wait for the GPU.
void TorchPools::pay() noexcept {
  const auto is_paid = [](Owed& each) {
    if (each.ptr == 0) return false;
    if (gpupool_free(each.pool, each.ptr, each.stream) == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) return false;
    each.ptr = 0;
    return !each.is_tag;
  };
  const auto end = owed_.begin() + static_cast<ptrdiff_t>(owed_count_);
  owed_count_ = static_cast<size_t>(std::remove_if(owed_.begin(), end, is_paid) - owed_.begin());
  publish();
}

/// Without the lock.
void TorchPools::empty_tags() noexcept {
  for (gpupool_status_t status = GPUPOOL_SUCCESS; status != GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;) {
    Owed next{};
    {
      const std::lock_guard lock(mutex_);
      const auto end = owed_.begin() + static_cast<ptrdiff_t>(owed_count_);
      const auto found = std::find_if(owed_.begin(), end, [](const Owed& each) { return each.ptr == 0; });
      if (found == end) return;
      next = *found;
      *found = owed_[--owed_count_];
      publish();
    }
    status = gpupool_empty(next.pool, nullptr);
    if (status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) owe(next);
  }
}

void TorchPools::settle_all() noexcept {
  {
    const std::lock_guard lock(mutex_);
    pay();
  }
  empty_tags();
  end_unused();
}

// ---- pools of graphs

TorchPools::Owned* TorchPools::find(int device, MempoolId id) {
  const auto found = std::find_if(owned_.begin(), owned_.end(), [&](const Owned& each) {
    return each.device == device && each.id == id && each.users > 0;
  });
  return found != owned_.end() ? &*found : nullptr;
}

gpupool_status_t TorchPools::retain_locked(int device, MempoolId id, gpupool_t* shared, gpupool_t*& pool) {
  if (Owned* known = find(device, id)) {
    ++known->users;
    pool = known->pool;
    return GPUPOOL_SUCCESS;
  }
  owned_.push_back({device, id, nullptr, 1});
  if (const gpupool_status_t status = gpupool_create_child(shared, &pool); status != GPUPOOL_SUCCESS) {
    owned_.pop_back();
    return status;
  }
  owned_.back().pool = pool;
  owned_count_.store(owned_.size(), std::memory_order_release);
  return GPUPOOL_SUCCESS;
}

gpupool_status_t TorchPools::retain(int device, MempoolId id) {
  gpupool_t* shared = nullptr;
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != GPUPOOL_SUCCESS) return status;
  const std::lock_guard lock(mutex_);
  return retain_locked(device, id, shared, pool);
}

/// A capture may begin from here on, on a stream that other threads free on.
gpupool_status_t TorchPools::begin(int device, MempoolId id, StreamFilter filter) {
  gpupool_t* shared = nullptr;
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != GPUPOOL_SUCCESS) return status;
  const std::lock_guard lock(mutex_);
  routes_.reserve(routes_.size() + 1);  // from where the pool is retained, nothing throws
  gpupool_status_t status = gpupool_announce_capture(shared, 1);
  if (status != GPUPOOL_SUCCESS) return status;
  status = retain_locked(device, id, shared, pool);
  if (status != GPUPOOL_SUCCESS) {
    (void)gpupool_announce_capture(shared, 0);
    return status;
  }
  routes_.push_back({device, id, pool, shared, std::move(filter)});
  publish();
  return GPUPOOL_SUCCESS;
}

void TorchPools::end(int device, MempoolId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto last = std::find_if(routes_.rbegin(), routes_.rend(),
                                   [&](const Route& each) { return each.device == device && each.id == id; });
    if (last == routes_.rend()) return;
    (void)gpupool_announce_capture(last->shared, 0);
    routes_.erase(std::next(last).base());
    publish();
  }
  end_unused();
}

void TorchPools::release(int device, MempoolId id) {
  {
    const std::lock_guard lock(mutex_);
    Owned* known = find(device, id);
    if (known == nullptr || --known->users > 0) return;
  }
  end_unused();
}

/// Ends the pools without users, unless a capture is in progress: that waits for the GPU, because a graph
/// deleted just now may still be running on any stream that the device's own pool has seen.
void TorchPools::end_unused() {
  for (;;) {
    Owned ending{};
    {
      const std::lock_guard lock(mutex_);
      is_end_owed_ = false;
      publish();
      if (!routes_.empty()) return;
      const auto next = std::find_if(owned_.begin(), owned_.end(),
                                     [](const Owned& each) { return each.users == 0 && !each.is_destroyed; });
      if (next == owned_.end()) return;
      next->is_destroyed = true;
      ending = *next;
    }
    if (end_pool(ending) != GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) continue;
    const std::lock_guard lock(mutex_);
    for (Owned& each : owned_) {
      if (each.pool == ending.pool) each.is_destroyed = false;
    }
    is_end_owed_ = true;
    publish();
    return;
  }
}

gpupool_status_t TorchPools::end_pool(const Owned& ending) {
  constexpr gpupool_status_t kShort = GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;
  gpupool_t* shared = nullptr;
  gpupool_status_t status = default_pool(ending.device, shared);
  if (status == GPUPOOL_SUCCESS) status = gpupool_synchronize(shared);
  if (status == kShort || gpupool_empty(ending.pool, nullptr) == kShort) return kShort;
  return gpupool_destroy(ending.pool);
}

int TorchPools::use_count(int device, MempoolId id) {
  const std::lock_guard lock(mutex_);
  const Owned* known = find(device, id);
  return known != nullptr ? known->users : 0;
}

/// The newest route is removed first, because scopes nest.
gpupool_t* TorchPools::routed(int device, void* stream) {
  const std::lock_guard lock(mutex_);
  const auto route = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& each) {
    return each.device == device && (!each.filter || each.filter(stream));
  });
  return route != routes_.rend() ? route->pool : nullptr;
}

// ---- one limit for all: that of the default pool, which its children share

gpupool_status_t TorchPools::set_limit(int device, uint64_t limit) {
  gpupool_t* shared = nullptr;
  const gpupool_status_t status = default_pool(device, shared);
  return status == GPUPOOL_SUCCESS ? gpupool_set_limit(shared, limit) : status;
}

uint64_t TorchPools::limit(int device) {
  gpupool_t* shared = nullptr;
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  if (default_pool(device, shared) != GPUPOOL_SUCCESS || gpupool_stats(shared, &stats) != GPUPOOL_SUCCESS)
    return 0;
  return stats.limit_bytes;
}

}  // namespace gpupool::torch
