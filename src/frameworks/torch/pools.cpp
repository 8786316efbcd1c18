// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/pools.hpp"

#include <pthread.h>

#include <algorithm>

namespace gpupool::torch {
namespace {

/// There before anything runs, and never destroyed: PyTorch frees until the very end of the process.
union Lasting {
  constexpr Lasting() : pools() {}
  constexpr ~Lasting() {}  // NOLINT: it destroys nothing, on purpose

  TorchPools pools;
};
constinit Lasting lasting;

/// When this library is loaded, the other one has registered its own. What is registered later is called
/// earlier before a fork: this lock comes before all others.
[[gnu::constructor]] void watch_fork() {
  TorchPools::watch_fork();
}

}  // namespace

TorchPools& TorchPools::instance() noexcept {
  return lasting.pools;
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

/// Devices that cannot reach each other copy by way of the host, which is the driver's business.
gpupool_status_t TorchPools::open_to_peers(int device, gpupool_t* pool) {
  for (int peer = 0; peer < kDevices; ++peer) {
    if (peer == device || !used_[peer].load(std::memory_order_relaxed)) continue;
    const gpupool_status_t status = gpupool_enable_peer(pool, peer);
    if (status != GPUPOOL_SUCCESS && status != GPUPOOL_ERROR_UNSUPPORTED) return status;
  }
  return GPUPOOL_SUCCESS;
}

/// The first use of a device: its pool is opened to the others in use, and theirs to it. Children share the
/// peers of their parent.
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
  if (route_count_.load(std::memory_order_acquire) != 0) {
    if (gpupool_t* graph = routed(device, stream)) pool = graph;
  }
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  return gpupool_malloc(pool, size, number, &ptr);
}

gpupool_status_t TorchPools::free(gpupool_ptr_t ptr, int device, void* stream) {
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, pool); status != GPUPOOL_SUCCESS) return status;
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  const gpupool_status_t status = gpupool_free(pool, ptr, number);
  if (status != GPUPOOL_ERROR_UNKNOWN_POINTER) return status;
  for (gpupool_t* graph : graph_pools(device)) {
    const gpupool_status_t freed = gpupool_free(graph, ptr, number);
    if (freed == GPUPOOL_SUCCESS) return GPUPOOL_SUCCESS;
    if (freed == GPUPOOL_ERROR_INVALID_ARGUMENT) forget(graph);  // its last block is gone
  }
  return status;
}

gpupool_status_t TorchPools::on_owner(const std::function<gpupool_status_t(gpupool_t*)>& function) {
  gpupool_status_t status = GPUPOOL_ERROR_UNKNOWN_POINTER;
  for (int device = 0; device < kDevices; ++device) {
    for (const auto& [id, pool] : list(device)) {
      status = function(pool);
      if (status == GPUPOOL_SUCCESS) return status;
    }
  }
  return status;
}

/// Graphs' pools keep what they have: their kernels may use it again.
void TorchPools::empty_all() {
  for (int device = 0; device < kDevices; ++device) {
    for (const auto& [id, pool] : list(device)) {
      if (id == MempoolId{}) (void)gpupool_empty(pool, nullptr);
    }
  }
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

gpupool_status_t TorchPools::begin(int device, MempoolId id, StreamFilter filter) {
  gpupool_t* shared = nullptr;
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != GPUPOOL_SUCCESS) return status;
  const std::lock_guard lock(mutex_);
  routes_.push_back({device, id, nullptr, std::move(filter)});
  if (const gpupool_status_t status = retain_locked(device, id, shared, pool); status != GPUPOOL_SUCCESS) {
    routes_.pop_back();
    return status;
  }
  routes_.back().pool = pool;
  route_count_.store(routes_.size(), std::memory_order_release);
  return GPUPOOL_SUCCESS;
}

void TorchPools::end(int device, MempoolId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto last = std::find_if(routes_.rbegin(), routes_.rend(),
                                   [&](const Route& each) { return each.device == device && each.id == id; });
    if (last == routes_.rend()) return;
    routes_.erase(std::next(last).base());
    route_count_.store(routes_.size(), std::memory_order_release);
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

/// Ends the pools without users, unless a capture is under way: that waits for the GPU, since a graph may
/// still run that was deleted just now, on any stream that the device's own pool has seen.
void TorchPools::end_unused() {
  std::vector<Owned> ending;
  {
    const std::lock_guard lock(mutex_);
    if (!routes_.empty()) return;
    for (Owned& each : owned_) {
      if (each.users != 0 || each.is_destroyed) continue;
      ending.push_back(each);
      each.is_destroyed = true;
    }
  }
  for (const Owned& each : ending) {
    gpupool_t* shared = nullptr;
    if (default_pool(each.device, shared) == GPUPOOL_SUCCESS) (void)gpupool_synchronize(shared);
    (void)gpupool_empty(each.pool, nullptr);
    (void)gpupool_destroy(each.pool);
  }
}

int TorchPools::use_count(int device, MempoolId id) {
  const std::lock_guard lock(mutex_);
  const Owned* known = find(device, id);
  return known != nullptr ? known->users : 0;
}

/// The newest route goes first, as scopes nest.
gpupool_t* TorchPools::routed(int device, void* stream) {
  const std::lock_guard lock(mutex_);
  const auto route = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& each) {
    return each.device == device && (!each.filter || each.filter(stream));
  });
  return route != routes_.rend() ? route->pool : nullptr;
}

/// Forgets a pool that has ended with its last block.
void TorchPools::forget(gpupool_t* pool) {
  const std::lock_guard lock(mutex_);
  std::erase_if(owned_, [=](const Owned& each) { return each.pool == pool && each.is_destroyed; });
  owned_count_.store(owned_.size(), std::memory_order_release);
}

/// Those that blocks may be in.
std::vector<gpupool_t*> TorchPools::graph_pools(int device) {
  std::vector<gpupool_t*> pools;
  if (owned_count_.load(std::memory_order_acquire) == 0) return pools;
  const std::lock_guard lock(mutex_);
  for (const Owned& each : owned_) {
    if (each.device == device) pools.push_back(each.pool);
  }
  return pools;
}

std::vector<std::pair<MempoolId, gpupool_t*>> TorchPools::list(int device) {
  std::vector<std::pair<MempoolId, gpupool_t*>> pools;
  if (device < 0 || device >= kDevices) return pools;
  gpupool_t* shared = nullptr;
  if (!used_[device].load(std::memory_order_relaxed)) return pools;
  if (gpupool_default_pool(device, &shared) == GPUPOOL_SUCCESS) pools.emplace_back(MempoolId{}, shared);
  const std::lock_guard lock(mutex_);
  for (const Owned& each : owned_) {
    if (each.device == device && !each.is_destroyed) pools.emplace_back(each.id, each.pool);
  }
  return pools;
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
