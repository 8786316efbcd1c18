// SPDX-License-Identifier: Apache-2.0
#include "abi/torch_pools.hpp"

#include <pthread.h>

#include <algorithm>

#include "abi/backends.hpp"
#include "base/status.hpp"
#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal::abi {
namespace {

/// The least limit that a pool can work with; 0 would be "none".
constexpr uint64_t kLeastLimit = uint64_t{2} << 20;

gpupool_stats_t stats_of(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  return stats;
}

}  // namespace

// PyTorch frees until the very end of the process.
static constinit Lasting<TorchPools> torch_pools;

TorchPools& TorchPools::instance() noexcept {
  return torch_pools.value;
}

void TorchPools::watch_fork() noexcept {
  pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                 [] { instance().mutex_.unlock(); });
}

/// Without the lock.
gpupool_status_t TorchPools::default_pool(int device, gpupool_t*& pool) {
  const gpupool_status_t status = gpupool_default_pool(device, &pool);
  if (status != kSuccess || used_[device].load(std::memory_order_acquire)) return status;
  const QuietLock lock(mutex_);
  return meet_peers(device, pool);
}

// ---- several devices

/// Devices that cannot reach each other copy by way of the host, which is the driver's business.
gpupool_status_t TorchPools::open_to_peers(int device, gpupool_t* pool) {
  for (int peer = 0; peer < static_cast<int>(kMaxDevices); ++peer) {
    if (peer == device || !used_[peer].load(std::memory_order_relaxed)) continue;
    const gpupool_status_t status = gpupool_enable_peer(pool, peer);
    if (status != kSuccess && status != GPUPOOL_ERROR_UNSUPPORTED) return status;
  }
  return kSuccess;
}

/// The first use of a device: its pool is opened to the others in use, and theirs to it.
gpupool_status_t TorchPools::meet_peers(int device, gpupool_t* pool) {
  if (used_[device].load(std::memory_order_relaxed)) return kSuccess;
  gpupool_status_t status = open_to_peers(device, pool);
  const auto open = [&](int other, gpupool_t* theirs) {
    if (other == device || status != kSuccess) return;
    status = gpupool_enable_peer(theirs, device);
    if (status == GPUPOOL_ERROR_UNSUPPORTED) status = kSuccess;
  };
  for (int other = 0; other < static_cast<int>(kMaxDevices); ++other) {
    gpupool_t* theirs = nullptr;
    if (used_[other].load(std::memory_order_relaxed) && gpupool_default_pool(other, &theirs) == kSuccess)
      open(other, theirs);
  }
  for (const Owned& each : owned_) {
    if (!each.is_destroyed) open(each.device, each.pool);
  }
  if (status == kSuccess) used_[device].store(true, std::memory_order_release);
  return status;
}

// ---- memory

gpupool_status_t TorchPools::malloc(uint64_t size, int device, void* stream, gpupool_ptr_t& ptr) {
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, pool); status != kSuccess) return status;
  if (route_count_.load(std::memory_order_acquire) != 0) {
    if (gpupool_t* graph = routed(device, stream)) pool = graph;
  }
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  const gpupool_status_t status = gpupool_malloc(pool, size, number, &ptr);
  if (status != GPUPOOL_ERROR_OVER_LIMIT || owned_count_.load(std::memory_order_acquire) == 0) return status;
  give_room(device, pool);
  pool->pool->forget_failure();
  return gpupool_malloc(pool, size, number, &ptr);
}

gpupool_status_t TorchPools::free(gpupool_ptr_t ptr, int device, void* stream) {
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, pool); status != kSuccess) return status;
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  const gpupool_status_t status = gpupool_free(pool, ptr, number);
  if (status != GPUPOOL_ERROR_UNKNOWN_POINTER) return status;
  for (gpupool_t* graph : graph_pools(device)) {
    if (gpupool_free(graph, ptr, number) == kSuccess) return kSuccess;
  }
  return fail(status, "0x%llx is not a live block of device %d", static_cast<unsigned long long>(ptr),
              device);
}

gpupool_status_t TorchPools::on_owner(const std::function<gpupool_status_t(gpupool_t*)>& function) {
  gpupool_status_t status = GPUPOOL_ERROR_UNKNOWN_POINTER;
  for (int device = 0; device < static_cast<int>(kMaxDevices); ++device) {
    for (const auto& [id, pool] : list(device)) {
      status = function(pool);
      if (status == kSuccess) return status;
    }
  }
  return status;
}

/// Graphs' pools keep what they have: their kernels may use it again.
void TorchPools::empty_all() {
  for (int device = 0; device < static_cast<int>(kMaxDevices); ++device) {
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
    return kSuccess;
  }
  const bool is_first = std::none_of(owned_.begin(), owned_.end(), [&](const Owned& each) {
    return each.device == device && !each.is_destroyed;
  });
  if (is_first) limit_[device] = stats_of(shared).limit_bytes;
  gpupool_config_t config{};
  config.struct_size = sizeof config;
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  config.device = device;
  config.limit_bytes = limit_[device] != 0 ? kLeastLimit : 0;
  owned_.push_back({device, id, nullptr, 1});
  gpupool_status_t status = gpupool_create(&config, &pool);
  if (status == kSuccess && (status = open_to_peers(device, pool)) != kSuccess) (void)gpupool_destroy(pool);
  if (status != kSuccess) {
    owned_.pop_back();
    return status;
  }
  owned_.back().pool = pool;
  owned_count_.store(owned_.size(), std::memory_order_release);
  return kSuccess;
}

gpupool_status_t TorchPools::retain(int device, MempoolId id) {
  gpupool_t* shared = nullptr;
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != kSuccess) return status;
  const QuietLock lock(mutex_);
  return retain_locked(device, id, shared, pool);
}

gpupool_status_t TorchPools::begin(int device, MempoolId id, StreamFilter filter) {
  gpupool_t* shared = nullptr;
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != kSuccess) return status;
  {
    const QuietLock lock(mutex_);
    routes_.push_back({device, id, nullptr, std::move(filter)});
    const gpupool_status_t status = retain_locked(device, id, shared, pool);
    if (status != kSuccess) {
      routes_.pop_back();
      return status;
    }
    routes_.back().pool = pool;
    route_count_.store(routes_.size(), std::memory_order_release);
  }
  give_room(device, pool);  // now, since meeting the limit while capturing would be too late
  return kSuccess;
}

void TorchPools::end(int device, MempoolId id) {
  {
    const QuietLock lock(mutex_);
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
    const QuietLock lock(mutex_);
    Owned* known = find(device, id);
    if (known == nullptr || --known->users > 0) return;
  }
  end_unused();
}

/// Ends the pools without users, unless a capture is under way: that waits for the GPU, since a graph may
/// still run that was deleted just now, on any stream that the device's own pool has seen. A graph that runs
/// on a stream of which nothing was ever allocated is not waited for: no pool has heard of it.
void TorchPools::end_unused() {
  std::vector<Owned> ending;
  {
    const QuietLock lock(mutex_);
    if (!routes_.empty()) return;
    for (Owned& each : owned_) {
      if (each.users != 0 || each.is_destroyed) continue;
      ending.push_back(each);
      each.is_destroyed = true;
    }
  }
  for (const Owned& each : ending) {
    gpupool_t* shared = nullptr;
    if (default_pool(each.device, shared) == kSuccess) (void)gpupool_synchronize(shared);
    (void)gpupool_empty(each.pool, nullptr);
    (void)gpupool_destroy(each.pool);
    const QuietLock lock(mutex_);
    const bool is_last = std::none_of(owned_.begin(), owned_.end(), [&](const Owned& other) {
      return other.device == each.device && !other.is_destroyed;
    });
    if (is_last && limit_[each.device] != 0 && shared != nullptr)
      (void)gpupool_set_limit(shared, limit_[each.device]);
  }
}

int TorchPools::use_count(int device, MempoolId id) {
  const QuietLock lock(mutex_);
  const Owned* known = find(device, id);
  return known != nullptr ? known->users : 0;
}

/// The newest route goes first, as scopes nest.
gpupool_t* TorchPools::routed(int device, void* stream) {
  const QuietLock lock(mutex_);
  const auto route = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& each) {
    return each.device == device && (!each.filter || each.filter(stream));
  });
  return route != routes_.rend() ? route->pool : nullptr;
}

/// Those that blocks may be in. Forgets the ones that have ended.
std::vector<gpupool_t*> TorchPools::graph_pools(int device) {
  std::vector<gpupool_t*> pools;
  if (owned_count_.load(std::memory_order_acquire) == 0) return pools;
  const QuietLock lock(mutex_);
  std::erase_if(owned_, [](const Owned& each) { return each.pool->life.load() == Life::gone; });
  owned_count_.store(owned_.size(), std::memory_order_release);
  for (const Owned& each : owned_) {
    if (each.device == device) pools.push_back(each.pool);
  }
  return pools;
}

std::vector<std::pair<MempoolId, gpupool_t*>> TorchPools::list(int device) {
  std::vector<std::pair<MempoolId, gpupool_t*>> pools;
  if (device < 0 || device >= static_cast<int>(kMaxDevices)) return pools;
  gpupool_t* shared = nullptr;
  if (!used_[device].load(std::memory_order_relaxed)) return pools;
  if (gpupool_default_pool(device, &shared) == kSuccess) pools.emplace_back(MempoolId{}, shared);
  const QuietLock lock(mutex_);
  for (const Owned& each : owned_) {
    if (each.device == device && !each.is_destroyed) pools.emplace_back(each.id, each.pool);
  }
  return pools;
}

// ---- one limit for all

/// Gives a pool all of the limit that the device's other pools do not hold now.
void TorchPools::give_room(int device, gpupool_t* pool) {
  const auto all = list(device);
  const QuietLock lock(mutex_);
  const uint64_t limit = limit_[device];
  if (limit == 0 || all.size() < 2) return;
  uint64_t held = 0;
  for (const auto& [id, other] : all) {
    if (other == pool) continue;
    const uint64_t reserved = std::max(stats_of(other).all.reserved_bytes.current, kLeastLimit);
    (void)gpupool_set_limit(other, reserved);
    held += reserved;
  }
  if (limit > held + kLeastLimit) (void)gpupool_set_limit(pool, limit - held);
}

gpupool_status_t TorchPools::set_limit(int device, uint64_t limit) {
  gpupool_t* shared = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != kSuccess) return status;
  uint64_t held = 0;
  for (const auto& [id, pool] : list(device)) {
    if (pool != shared) held += stats_of(pool).all.reserved_bytes.current;
  }
  if (held >= limit) return fail(GPUPOOL_ERROR_OVER_LIMIT, "the pools of graphs hold more than the limit");
  if (const gpupool_status_t status = gpupool_set_limit(shared, limit - held); status != kSuccess)
    return status;
  const QuietLock lock(mutex_);
  limit_[device] = limit;
  return kSuccess;
}

uint64_t TorchPools::limit(int device) {
  gpupool_t* shared = nullptr;
  if (default_pool(device, shared) != kSuccess) return 0;
  const auto all = list(device);
  if (all.size() == 1) return stats_of(all.front().second).limit_bytes;
  const QuietLock lock(mutex_);
  return limit_[device];
}

}  // namespace gpupool::internal::abi
