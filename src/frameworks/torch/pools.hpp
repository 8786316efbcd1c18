// SPDX-License-Identifier: Apache-2.0
// The pools of one process's PyTorch memory: each device's default pool, and the pools of its graphs.
#pragma once

#include <gpupool/gpupool.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace gpupool::torch {

/// The maximum number of default pools.
constexpr int kDevices = 64;

/// What PyTorch calls MempoolId_t.
using MempoolId = std::pair<uint64_t, uint64_t>;

/// Whether an allocation for a stream goes to a graph's pool.
using StreamFilter = std::function<bool(void*)>;

/// How many frees can wait for memory on the host. A program whose host stays short ends long before.
constexpr size_t kOwedMax = 1024;

/// Failures that PyTorch answers by emptying its cache and trying again.
inline bool is_shortage(int32_t status) noexcept {
  return status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT;
}

/// A graph's memory must not be used by anything else while the graph lives, because its kernels have the
/// addresses built in. So each graph, or group of graphs, has its own pool, with a route to it only while it
/// captures.
///
/// They are children of the device's default pool, and so share its limit and its peers.
///
/// PyTorch copies between devices without telling its allocator, so from the second device on, each device
/// may use the memory of the others that it can reach.
///
/// PyTorch's frees have no status, and a block is lost if its free fails. So what the host had no memory for
/// is owed: each later call tries again, in room that was there from the start.
///
/// The lock is taken around fork, before the library's own. Functions that return a status leave the reason
/// in gpupool_last_error; begin and retain may throw std::bad_alloc, and change nothing then.
class TorchPools {
 public:
  static TorchPools& instance() noexcept;
  static void watch_fork() noexcept;

  /// The device's default pool, which from now on gives the other devices in use access.
  gpupool_status_t default_pool(int device, gpupool_t*& pool);
  gpupool_status_t malloc(uint64_t size, int device, void* stream, gpupool_ptr_t& ptr);
  gpupool_status_t free(gpupool_ptr_t ptr, int device, void* stream);
  /// Calls use(pool) on the pools of all devices until one knows the block, and returns what that one says.
  template <typename Use>
  gpupool_status_t on_owner(Use use);
  void empty_all();
  /// Calls use(id, pool) on the pools of a device, its default pool first, until one returns true. Most of
  /// them under the lock: use must not wait.
  template <typename Use>
  bool any_of(int device, Use use);

  /// A free that the host has no memory for, or with ptr 0 the emptying of a tag's pool. It is done by a
  /// later settle. Waits only if too many are owed.
  struct Owed {
    gpupool_t* pool;
    gpupool_ptr_t ptr;
    gpupool_stream_t stream;
    bool is_tag;  // the pool is emptied afterwards
  };
  void owe(const Owed& owed) noexcept;
  /// Does what is owed, as far as the host now has memory.
  void settle() noexcept {
    if (is_owing_.load(std::memory_order_acquire)) [[unlikely]]
      settle_all();
  }

  gpupool_status_t begin(int device, MempoolId id, StreamFilter filter);
  void end(int device, MempoolId id);
  gpupool_status_t retain(int device, MempoolId id);
  void release(int device, MempoolId id);
  int use_count(int device, MempoolId id);

  gpupool_status_t set_limit(int device, uint64_t limit);
  uint64_t limit(int device);

 private:
  struct Owned {
    int device;
    MempoolId id;
    gpupool_t* pool;
    int users;                  // 0: it ends, once no capture is in progress
    bool is_destroyed = false;  // but it may have live blocks
  };
  struct Route {
    int device;
    MempoolId id;
    gpupool_t* pool;
    gpupool_t* shared;  // the device's, which knows that a capture is announced
    StreamFilter filter;
  };

  gpupool_status_t open_to_peers(int device, gpupool_t* pool);
  gpupool_status_t meet_peers(int device, gpupool_t* pool);
  gpupool_t* routed(int device, void* stream);
  Owned* find(int device, MempoolId id);
  gpupool_status_t retain_locked(int device, MempoolId id, gpupool_t* shared, gpupool_t*& pool);
  gpupool_status_t free_in_graph(gpupool_ptr_t ptr, int device, gpupool_stream_t stream, gpupool_t*& pool);
  gpupool_status_t end_pool(const Owned& ending);
  void end_unused();
  void settle_all() noexcept;
  void pay() noexcept;
  void empty_tags() noexcept;
  void publish() noexcept;

  std::atomic<bool> has_detours_{false};  // routes, or what is owed: a malloc has more to do
  std::atomic<bool> is_owing_{false};
  std::atomic<size_t> owned_count_{0};
  std::atomic<bool> used_[kDevices] = {};
  std::mutex mutex_;
  std::vector<Owned> owned_;
  std::vector<Route> routes_;
  std::array<Owed, kOwedMax> owed_{};
  size_t owed_count_ = 0;
  bool is_end_owed_ = false;  // of a pool without users
};

template <typename Use>
bool TorchPools::any_of(int device, Use use) {
  if (device < 0 || device >= kDevices || !used_[device].load(std::memory_order_relaxed)) return false;
  gpupool_t* shared = nullptr;
  if (gpupool_default_pool(device, &shared) == GPUPOOL_SUCCESS && use(MempoolId{}, shared)) return true;
  const std::lock_guard lock(mutex_);
  return std::any_of(owned_.begin(), owned_.end(), [&](const Owned& each) {
    return each.device == device && !each.is_destroyed && use(each.id, each.pool);
  });
}

template <typename Use>
gpupool_status_t TorchPools::on_owner(Use use) {
  gpupool_status_t status = GPUPOOL_ERROR_UNKNOWN_POINTER;
  const auto is_owner = [&](MempoolId, gpupool_t* pool) {
    status = use(pool);
    return status != GPUPOOL_ERROR_UNKNOWN_POINTER && status != GPUPOOL_ERROR_INVALID_ARGUMENT;
  };
  for (int device = 0; device < kDevices; ++device) {
    if (any_of(device, is_owner)) break;
  }
  return status;
}

}  // namespace gpupool::torch
