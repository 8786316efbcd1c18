// SPDX-License-Identifier: Apache-2.0
// The private pools of the process, and which allocations go to them.
#pragma once

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <gpupool/frameworks.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "private_pool.hpp"

namespace gpupool_torch {

using c10::DeviceIndex;
using c10::MempoolId_t;

class PrivatePools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  /// on_give_back is told of each segment that goes.
  explicit PrivatePools(std::function<void(void*)> on_give_back) : on_give_back_(std::move(on_give_back)) {}

  /// Whether any allocation goes to a private pool now: then no stream may be asked where it is.
  bool is_routing() const { return route_count_.load(std::memory_order_acquire) != 0; }

  /// owner is set to the pool that an allocation for this stream comes from now, if there is one; then the
  /// block is the result, or null where memory is short.
  void* malloc(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    const std::lock_guard lock(mutex_);
    // The innermost first.
    const auto route = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& each) {
      return each.pool->device == device && each.accepts(stream);
    });
    if (route == routes_.rend()) return nullptr;
    owner = route->pool;
    const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    return owner->malloc(size, stream);
  }

  void free(PrivatePool* owner, void* ptr) {
    const std::lock_guard lock(mutex_);
    owner->free(ptr, !is_routing());
  }

  void record_stream(PrivatePool* owner, void* ptr, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    owner->record_stream(ptr, stream);
  }

  void begin(DeviceIndex device, MempoolId_t id, Filter accepts) {
    const std::lock_guard lock(mutex_);
    PrivatePool* pool = retained(device, id);
    if (routes_.empty()) pool->finish_pending();
    routes_.push_back({pool, std::move(accepts)});
    route_count_.store(routes_.size(), std::memory_order_release);
  }

  void end(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const auto last = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& each) {
      return each.pool->device == device && each.pool->id == id;
    });
    if (last == routes_.rend()) return;
    routes_.erase(std::next(last).base());
    route_count_.store(routes_.size(), std::memory_order_release);
  }

  void retain(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    (void)retained(device, id);
  }

  /// Without users, the pool keeps its memory until give_back.
  void release(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    if (PrivatePool* pool = find(device, id)) --pool->users;
  }

  int use_count(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const PrivatePool* pool = find(device, id);
    return pool != nullptr ? pool->users : 0;
  }

  void set_no_split(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    if (PrivatePool* pool = find(device, id)) pool->no_split = true;
  }

  /// Gives back what pools without users hold; waits for the GPU if there are any. id zero: all of them.
  bool give_back(MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const auto is_meant = [&](const PrivatePool& pool) {
      return pool.users == 0 && (id == MempoolId_t{0, 0} || id == pool.id);
    };
    if (!routes_.empty() || std::none_of(pools_.begin(), pools_.end(), is_meant)) return false;
    for (PrivatePool& pool : pools_) {
      if (!is_meant(pool)) continue;
      const c10::cuda::CUDAGuard guard(pool.device);
      C10_CUDA_CHECK(cudaDeviceSynchronize());
      pool.give_back();
    }
    pools_.remove_if([&](const PrivatePool& pool) { return is_meant(pool) && pool.is_empty(); });
    return true;
  }

  std::vector<PrivateBlock> live(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const PrivatePool* pool = find(device, id);
    TORCH_CHECK(pool != nullptr, "gpupool: there is no such pool of graphs");
    return pool->live();
  }

  /// Makes exactly these blocks live, and gives those that were before, and the pool.
  std::pair<std::vector<PrivateBlock>, PrivatePool*> set_live(DeviceIndex device, MempoolId_t id,
                                                              const std::vector<PrivateBlock>& wanted) {
    const std::lock_guard lock(mutex_);
    PrivatePool* pool = find(device, id);
    TORCH_CHECK(pool != nullptr, "gpupool: the pool of the checkpoint is gone");
    auto before = pool->live();
    const c10::cuda::CUDAGuard guard(device);
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    pool->set_live(wanted);
    return {std::move(before), pool};
  }

  /// By their addresses.
  std::map<uintptr_t, SegmentInfo> segments(DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    std::map<uintptr_t, SegmentInfo> all;
    for (const PrivatePool& pool : pools_) {
      if (pool.device == device) all.merge(pool.describe());
    }
    return all;
  }

  PrivateUsage usage(DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    return devices_[device].usage;
  }

 private:
  struct Route {
    PrivatePool* pool;
    Filter accepts;
  };
  struct Device {
    PrivateUsage usage;
    gpupool_stream_t stream = 0;  // segments are allocated for it; no work runs on it
  };

  PrivatePool* find(DeviceIndex device, MempoolId_t id) {
    const auto found = std::find_if(pools_.begin(), pools_.end(), [&](const PrivatePool& each) {
      return each.device == device && each.id == id;
    });
    return found != pools_.end() ? &*found : nullptr;
  }

  PrivatePool* retained(DeviceIndex device, MempoolId_t id) {
    PrivatePool* pool = find(device, id);
    if (pool == nullptr) pool = &pools_.emplace_back(device, id, source_of(device), devices_[device].usage);
    ++pool->users;
    return pool;
  }

  /// A segment is free for any stream at once, since a graph may use it on one that the device's pool does
  /// not know: so what the pool made the segments' own stream wait for is waited for here.
  SegmentSource source_of(DeviceIndex device) {
    Device& own = devices_[device];
    const auto get = [device, &own](size_t bytes) -> void* {
      gpupool_t* pool = nullptr;
      if (gpupool_default_pool(device, &pool) != GPUPOOL_SUCCESS) return nullptr;
      if (own.stream == 0 && gpupool_stream_create(pool, &own.stream) != GPUPOOL_SUCCESS) return nullptr;
      void* ptr = gpupool_torch_alloc(bytes, device, reinterpret_cast<void*>(own.stream));
      if (ptr != nullptr) (void)gpupool_stream_synchronize(pool, own.stream);
      return ptr;
    };
    const auto give_back = [this, device, &own](void* ptr, size_t bytes) {
      on_give_back_(ptr);
      gpupool_torch_free(ptr, bytes, device, reinterpret_cast<void*>(own.stream));
    };
    return {get, give_back};
  }

  std::function<void(void*)> on_give_back_;
  std::recursive_mutex mutex_;  // a handler of shortages may free tensors
  std::atomic<size_t> route_count_{0};
  std::list<PrivatePool> pools_;
  std::vector<Route> routes_;
  std::map<DeviceIndex, Device> devices_;
};

}  // namespace gpupool_torch
