// SPDX-License-Identifier: Apache-2.0
// The private pools of the process, and which allocations go to them.
#pragma once

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "captures.hpp"
#include "device_pools.hpp"
#include "private_pool.hpp"

namespace gpupool_torch {

class PrivatePools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;
  using Owner = CUDAAllocator;
  /// Hears of each segment of a pool that has come or is about to go.
  using Watch = std::function<void(const PrivatePool&, const Segment&, bool has_come)>;

  PrivatePools(DevicePools& devices, Captures& captures, Watch watch)
      : devices_(devices), captures_(captures), watch_(std::move(watch)) {}

  /// Whether any allocation goes to a private pool now: then no stream may be asked where it is.
  bool is_routing() const { return route_count_.load(std::memory_order_acquire) != 0; }

  /// Sets owner to the pool that allocations for this stream now go to, if there is one. Returns the block
  /// then, or null if memory is short.
  void* malloc(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    const std::lock_guard lock(mutex_);
    owner = routed(device, stream);
    if (owner == nullptr) return nullptr;
    adopt_allocator(*owner);
    const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    return owner->malloc(size, stream);
  }

  /// The same for a block at this address, or null if no pool has it free.
  void* malloc_at(void* address, size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    const std::lock_guard lock(mutex_);
    owner = routed(device, stream);
    if (owner == nullptr) return nullptr;
    return owner->malloc_at(reinterpret_cast<uintptr_t>(address), size, stream);
  }

  /// Returns a free block of a pool that lends in a shortage, and sets its owner; else returns null.
  void* malloc_in_shortage(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    const std::lock_guard lock(mutex_);
    for (PrivatePool& pool : pools_) {
      if (!pool.serves_shortages || pool.device != device || pool.users == 0) continue;
      if (void* ptr = pool.malloc_cached(size, stream)) {
        owner = &pool;
        return ptr;
      }
    }
    return nullptr;
  }

  void free(PrivatePool* owner, void* ptr) {
    const std::lock_guard lock(mutex_);
    const bool is_user = std::any_of(routes_.begin(), routes_.end(), [&](const Route& each) {
      return each.pool == owner && each.thread == std::this_thread::get_id();
    });
    owner->free(ptr, !is_routing(), is_user);
  }

  void record_stream(PrivatePool* owner, void* ptr, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    owner->record_stream(ptr, stream);
  }

  /// PyTorch may begin a capture after this, and ends it before end(). It does not say whether it will.
  void begin(DeviceIndex device, MempoolId_t id, Filter accepts) {
    const std::lock_guard lock(mutex_);
    const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    Announcement announcement(devices_.use(device));
    PrivatePool* pool = find(device, id);
    const bool is_graphs = pool == nullptr;  // PyTorch creates a MemPool before it allocates to it
    pool = retained(device, id, nullptr);
    if (is_graphs) pool->grows = GPUPOOL_PYTORCH >= 208;
    if (routes_.empty()) pool->finish_pending();
    routes_.push_back({pool, std::move(accepts), std::this_thread::get_id(), std::move(announcement)});
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
    give_back_due();
  }

  /// A capture has ended, or an allocation to a pool: what could not be given back during it may be now.
  void give_back_due() {
    const std::lock_guard lock(mutex_);
    if (is_due_) (void)give_back({0, 0});
  }

  /// allocator: where a new pool's segments come from; null: the device's pool.
  void retain(DeviceIndex device, MempoolId_t id, std::shared_ptr<Owner> allocator) {
    const std::lock_guard lock(mutex_);
    (void)retained(device, id, std::move(allocator));
  }

  /// A pool without users gives back memory that no block is in: now, or after the captures that are under
  /// way.
  void release(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    PrivatePool* pool = find(device, id);
    if (pool == nullptr || --pool->users > 0) return;
    if (!give_back(id)) is_due_ = true;
  }

  int use_count(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const PrivatePool* pool = find(device, id);
    return pool != nullptr ? pool->users : 0;
  }

  /// Calls change(pool) on the pool, if there is one.
  void with(DeviceIndex device, MempoolId_t id, const std::function<void(PrivatePool&)>& change) {
    const std::lock_guard lock(mutex_);
    if (PrivatePool* pool = find(device, id)) change(*pool);
  }

  /// Gives back the memory of pools without users; waits for the GPU if there are any. id zero: all of them.
  /// Returns false if nothing could be given back, for example during a capture.
  bool give_back(MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const auto is_meant = [&](const PrivatePool& pool) {
      return pool.users == 0 && (id == MempoolId_t{0, 0} || id == pool.id);
    };
    if (!routes_.empty()) return false;
    bool has_given = false;
    for (PrivatePool& pool : pools_) {
      if (!is_meant(pool) || captures_.has_any(pool.device) || !has_passed(pool.device)) continue;
      pool.give_back();
      has_given = true;
    }
    pools_.remove_if([&](const PrivatePool& pool) { return is_meant(pool) && pool.is_empty(); });
    if (has_given && id == MempoolId_t{0, 0}) is_due_ = false;
    return has_given;
  }

  std::vector<PrivateBlock> live(DeviceIndex device, MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const PrivatePool* pool = find(device, id);
    TORCH_CHECK(pool != nullptr, "gpupool: there is no such pool of graphs");
    return pool->live();
  }

  /// Makes exactly these blocks live. Returns those that were live before, and the pool.
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
    return usages_[device].usage;
  }

  void reset_peaks(DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    DeviceStats& foreign = usages_[device].usage.foreign;
    for (StatArray* array : {&foreign.segment, &foreign.reserved_bytes}) {
      for (Stat& stat : *array) stat.reset_peak();
    }
    for (auto& [id, array] : usages_[device].usage.reserved_bytes) {
      for (Stat& stat : array) stat.reset_peak();
    }
  }

 private:
  struct Route {
    PrivatePool* pool;
    Filter accepts;
    std::thread::id thread;  // that began it
    Announcement announcement;
  };
  struct Device {
    PrivateUsage usage;
    gpupool_stream_t stream = 0;  // segments are allocated for it; no work runs on it
  };

  /// The pool that allocations for this stream go to, the innermost first; null: the device's.
  PrivatePool* routed(DeviceIndex device, cudaStream_t stream) {
    const auto route = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& each) {
      return each.pool->device == device && each.accepts(stream);
    });
    return route != routes_.rend() ? route->pool : nullptr;
  }

  /// Before 2.8, PyTorch does not say which allocator a MemPool has, and the thread that uses it knows.
  void adopt_allocator([[maybe_unused]] PrivatePool& pool) {
#if GPUPOOL_PYTORCH < 208
    c10::cuda::MemPool* active = c10::cuda::MemPoolContext::getActiveMemPool();
    if (active == nullptr || active->id() != pool.id || active->allocator() == nullptr || !pool.is_empty())
      return;
    pool.set_source(source_from(pool.device, std::shared_ptr<Owner>(active->allocator(), [](Owner*) {})));
#endif
  }

  PrivatePool* find(DeviceIndex device, MempoolId_t id) {
    const auto found = std::find_if(pools_.begin(), pools_.end(), [&](const PrivatePool& each) {
      return each.device == device && each.id == id;
    });
    return found != pools_.end() ? &*found : nullptr;
  }

  PrivatePool* retained(DeviceIndex device, MempoolId_t id, std::shared_ptr<Owner> allocator) {
    PrivatePool* pool = find(device, id);
    if (pool == nullptr) {
      auto source = allocator ? source_from(device, std::move(allocator)) : source_of(device);
      pool = &pools_.emplace_back(device, id, std::move(source), usages_[device].usage);
      pool->watch([this, pool](const Segment& segment, bool has_come) { watch_(*pool, segment, has_come); });
    }
    ++pool->users;
    return pool;
  }

  /// Whether the device has done all its work: a graph that was just deleted may still run. False while
  /// anybody captures there, because a capture must not be disturbed, and if the driver is gone. Never
  /// throws, because graphs end in destructors.
  static bool has_passed(DeviceIndex device) noexcept {
    int before = 0;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    bool has_passed = false;
    if (cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(device) == cudaSuccess) {
      if (cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess) {
        has_passed = cudaDeviceSynchronize() == cudaSuccess;
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
      }
      (void)cudaSetDevice(before);
    }
    if (!has_passed) (void)cudaGetLastError();
    return has_passed;
  }

  /// A new segment must be free for any stream at once, because a graph may use it on a stream that the
  /// device's pool does not know. So this waits for what the pool made the segments' own stream wait for.
  SegmentSource source_of(DeviceIndex device) {
    Device& own = usages_[device];
    const auto get = [this, device, &own](size_t bytes, cudaStream_t) -> void* {
      gpupool_t* pool = devices_.use(device);
      gpupool_ptr_t ptr = 0;
      if (pool == nullptr) return nullptr;
      if (own.stream == 0 && gpupool_stream_create(pool, &own.stream) != GPUPOOL_SUCCESS) return nullptr;
      if (gpupool_malloc(pool, bytes, own.stream, &ptr) != GPUPOOL_SUCCESS) return nullptr;
      (void)gpupool_stream_synchronize(pool, own.stream);
      return reinterpret_cast<void*>(ptr);
    };
    const auto give_back = [this, device, &own](void* ptr, size_t) {
      (void)gpupool_free(devices_.use(device), reinterpret_cast<gpupool_ptr_t>(ptr), own.stream);
    };
    const auto get_behind = [this, device, &own](size_t bytes, void* behind, bool& has_room) -> void* {
      gpupool_t* pool = devices_.use(device);
      gpupool_ptr_t ptr = 0;
      if (pool == nullptr) return nullptr;
      if (own.stream == 0 && gpupool_stream_create(pool, &own.stream) != GPUPOOL_SUCCESS) return nullptr;
      const gpupool_status_t status =
          gpupool_malloc_behind(pool, bytes, reinterpret_cast<uintptr_t>(behind), own.stream, &ptr);
      has_room = status != GPUPOOL_ERROR_UNAVAILABLE;
      if (status != GPUPOOL_SUCCESS) return nullptr;
      (void)gpupool_stream_synchronize(pool, own.stream);
      return reinterpret_cast<void*>(ptr);
    };
    const auto count = [this, device](int32_t what, int32_t change, bool is_small, size_t bytes,
                                      size_t requested) {
      (void)gpupool_count_parts(devices_.find(device), what, change, is_small ? 1 : 0, 1, bytes, requested);
    };
    return {get, give_back, get_behind, count};
  }

  /// The allocator sees the device and the stream that PyTorch's own would show it.
  SegmentSource source_from(DeviceIndex device, std::shared_ptr<Owner> allocator) {
    const auto get = [device, allocator](size_t bytes, cudaStream_t stream) {
      const c10::cuda::CUDAGuard guard(device);
      return allocator->raw_alloc_with_stream(bytes, stream);
    };
    const auto give_back = [device, allocator](void* ptr, size_t) {
      const c10::cuda::CUDAGuard guard(device);
      allocator->raw_delete(ptr);
    };
    return {get, give_back, nullptr, nullptr};
  }

  DevicePools& devices_;
  Captures& captures_;
  const Watch watch_;
  std::recursive_mutex mutex_;  // a handler of shortages may free tensors
  std::atomic<size_t> route_count_{0};
  bool is_due_ = false;  // a pool without users could not give back yet
  std::list<PrivatePool> pools_;
  std::vector<Route> routes_;
  std::map<DeviceIndex, Device> usages_;
};

}  // namespace gpupool_torch
