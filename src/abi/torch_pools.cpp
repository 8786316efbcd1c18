// SPDX-License-Identifier: Apache-2.0
#include "abi/torch_pools.hpp"

#include <pthread.h>

#include <algorithm>

#include "base/status.hpp"
#include "pool/registry.hpp"

namespace gpupool::abi {
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

/// Leaked on purpose: PyTorch frees until the very end of the process. Its lock is taken around fork, and
/// comes before the registry's, whose handlers are therefore registered first: they run in reverse order.
TorchPools& TorchPools::instance() {
  static TorchPools* const pools = [] {
    (void)Registry::instance();
    auto* created = new TorchPools;
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
    return created;
  }();
  return *pools;
}

gpupool_status_t TorchPools::default_pool(int device, gpupool_t*& pool) {
  const gpupool_status_t status = gpupool_default_pool(device, &pool);
  if (status == kSuccess) used_[device].store(true, std::memory_order_relaxed);
  return status;
}

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

gpupool_status_t TorchPools::retain_locked(int device, MempoolId id, gpupool_t*& pool) {
  gpupool_t* shared = nullptr;
  if (const gpupool_status_t status = default_pool(device, shared); status != kSuccess) return status;
  if (Owned* known = find(device, id)) {
    ++known->users;
    pool = known->pool;
    return kSuccess;
  }
  const bool is_first = std::none_of(owned_.begin(), owned_.end(), [&](const Owned& each) {
    return each.device == device && each.users > 0;
  });
  if (is_first) limit_[device] = stats_of(shared).limit_bytes;
  gpupool_config_t config{};
  config.struct_size = sizeof config;
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  config.device = device;
  config.limit_bytes = limit_[device] != 0 ? kLeastLimit : 0;
  owned_.reserve(owned_.size() + 1);
  if (const gpupool_status_t status = gpupool_create(&config, &pool); status != kSuccess) return status;
  owned_.push_back({device, id, pool, 1});
  owned_count_.store(owned_.size(), std::memory_order_release);
  return kSuccess;
}

gpupool_status_t TorchPools::retain(int device, MempoolId id) {
  const std::lock_guard lock(mutex_);
  gpupool_t* pool = nullptr;
  return retain_locked(device, id, pool);
}

gpupool_status_t TorchPools::begin(int device, MempoolId id, StreamFilter filter) {
  gpupool_t* pool = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const gpupool_status_t status = retain_locked(device, id, pool); status != kSuccess) return status;
    routes_.push_back({device, id, pool, std::move(filter)});
    route_count_.store(routes_.size(), std::memory_order_release);
  }
  give_room(device, pool);  // now, since meeting the limit while capturing would be too late
  return kSuccess;
}

void TorchPools::end(int device, MempoolId id) {
  const std::lock_guard lock(mutex_);
  const auto last = std::find_if(routes_.rbegin(), routes_.rend(),
                                 [&](const Route& each) { return each.device == device && each.id == id; });
  if (last == routes_.rend()) return;
  routes_.erase(std::next(last).base());
  route_count_.store(routes_.size(), std::memory_order_release);
}

void TorchPools::release(int device, MempoolId id) {
  const std::lock_guard lock(mutex_);
  Owned* known = find(device, id);
  if (known == nullptr || --known->users > 0) return;
  (void)gpupool_empty(known->pool, nullptr);
  (void)gpupool_destroy(known->pool);
  const bool is_last = std::none_of(owned_.begin(), owned_.end(), [&](const Owned& each) {
    return each.device == device && each.users > 0;
  });
  gpupool_t* shared = nullptr;
  if (is_last && limit_[device] != 0 && default_pool(device, shared) == kSuccess) {
    (void)gpupool_set_limit(shared, limit_[device]);
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

/// Those that blocks may be in. Forgets the ones that have ended.
std::vector<gpupool_t*> TorchPools::graph_pools(int device) {
  std::vector<gpupool_t*> pools;
  if (owned_count_.load(std::memory_order_acquire) == 0) return pools;
  const std::lock_guard lock(mutex_);
  std::erase_if(owned_, [](const Owned& each) {
    return each.users == 0 && gpupool_free(each.pool, 1, 0) == GPUPOOL_ERROR_INVALID_ARGUMENT;
  });
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
  const std::lock_guard lock(mutex_);
  for (const Owned& each : owned_) {
    if (each.device == device && each.users > 0) pools.emplace_back(each.id, each.pool);
  }
  return pools;
}

// ---- one limit for all

/// Gives a pool all of the limit that the device's other pools do not hold now.
void TorchPools::give_room(int device, gpupool_t* pool) {
  const auto all = list(device);
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  limit_[device] = limit;
  return kSuccess;
}

uint64_t TorchPools::limit(int device) {
  gpupool_t* shared = nullptr;
  if (default_pool(device, shared) != kSuccess) return 0;
  const auto all = list(device);
  if (all.size() == 1) return stats_of(all.front().second).limit_bytes;
  const std::lock_guard lock(mutex_);
  return limit_[device];
}

}  // namespace gpupool::abi
