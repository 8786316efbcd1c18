// SPDX-License-Identifier: Apache-2.0
// The pools that PyTorch's memory of one process is in: each device's default pool, and those of its graphs.
#pragma once

#include <gpupool/gpupool.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace gpupool::torch {

/// The number of default pools that there can be.
constexpr int kDevices = 64;

/// What PyTorch calls MempoolId_t.
using MempoolId = std::pair<uint64_t, uint64_t>;

/// Whether an allocation for a stream goes to a graph's pool.
using StreamFilter = std::function<bool(void*)>;

/// What PyTorch answers by emptying its cache and trying again.
inline bool is_shortage(int32_t status) noexcept {
  return status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT;
}

/// A graph's memory must not be used by anything else while the graph lives, since its kernels have the
/// addresses built in. So each graph, or group of graphs, has a pool of its own, with no route to it but
/// while it captures.
///
/// They are children of the device's default pool, and so share its limit and its peers.
///
/// PyTorch copies between devices with no word to its allocator, so from the second device on, each device
/// may use the memory of the others, as far as they can reach each other.
///
/// The lock is taken around fork, before the library's own. Functions that return a status leave the reason
/// in gpupool_last_error. All may throw std::bad_alloc.
class TorchPools {
 public:
  static TorchPools& instance() noexcept;
  static void watch_fork() noexcept;

  /// The device's default pool, which is open to the other devices in use from now on.
  gpupool_status_t default_pool(int device, gpupool_t*& pool);
  gpupool_status_t malloc(uint64_t size, int device, void* stream, gpupool_ptr_t& ptr);
  gpupool_status_t free(gpupool_ptr_t ptr, int device, void* stream);
  /// Calls function(pool) on the pools of all devices until one succeeds, and returns that.
  gpupool_status_t on_owner(const std::function<gpupool_status_t(gpupool_t*)>& function);
  void empty_all();

  gpupool_status_t begin(int device, MempoolId id, StreamFilter filter);
  void end(int device, MempoolId id);
  gpupool_status_t retain(int device, MempoolId id);
  void release(int device, MempoolId id);
  int use_count(int device, MempoolId id);

  gpupool_status_t set_limit(int device, uint64_t limit);
  uint64_t limit(int device);
  std::vector<std::pair<MempoolId, gpupool_t*>> list(int device);

 private:
  struct Owned {
    int device;
    MempoolId id;
    gpupool_t* pool;
    int users;                  // 0: it ends, once no capture is under way
    bool is_destroyed = false;  // but blocks of it may be live
  };
  struct Route {
    int device;
    MempoolId id;
    gpupool_t* pool;
    StreamFilter filter;
  };

  gpupool_status_t open_to_peers(int device, gpupool_t* pool);
  gpupool_status_t meet_peers(int device, gpupool_t* pool);
  gpupool_t* routed(int device, void* stream);
  Owned* find(int device, MempoolId id);
  gpupool_status_t retain_locked(int device, MempoolId id, gpupool_t* shared, gpupool_t*& pool);
  void end_unused();
  void forget(gpupool_t* pool);
  std::vector<gpupool_t*> graph_pools(int device);

  std::atomic<size_t> route_count_{0};
  std::atomic<size_t> owned_count_{0};
  std::atomic<bool> used_[kDevices] = {};
  std::mutex mutex_;
  std::vector<Owned> owned_;
  std::vector<Route> routes_;
};

}  // namespace gpupool::torch
