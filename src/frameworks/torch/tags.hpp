// SPDX-License-Identifier: Apache-2.0
// PyTorch memory that sleeps by tag: allocators for torch.cuda.MemPool, each with its own pools.
#pragma once

#include <gpupool/gpupool.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "frameworks/torch/pools.hpp"

namespace gpupool::torch {

/// How many tags a process can have. Engines use about ten.
constexpr size_t kTags = 64;

/// A tag has a pool on each device that uses it: a child of the default pool, so that it shares the device's
/// limit and peers, and keeps memory that graphs have built in. The tag is the pool's name.
///
/// The lock is taken around fork, before the library's own. Functions that return a status leave the reason
/// in gpupool_last_error, except for names. find may throw std::bad_alloc.
class Tags {
 public:
  static Tags& instance() noexcept;
  static void watch_fork() noexcept;

  /// The tag's number, which a new one gets now. INVALID_ARGUMENT for a name that no pool can have,
  /// UNAVAILABLE beyond kTags.
  gpupool_status_t find(const char* name, size_t& number);
  gpupool_status_t malloc(size_t number, bool keep, uint64_t size, int device, void* stream,
                          gpupool_ptr_t& ptr);
  /// Also gives the memory back to the device, because PyTorch's own cache is above this.
  void free(size_t number, gpupool_ptr_t ptr, int device, void* stream) noexcept;
  /// name null: the pools of all tags. Writes at most capacity, and returns how many there are.
  size_t list(const char* name, gpupool_t** pools, size_t capacity);
  uint64_t asleep_bytes(int device) const noexcept;
  void set_margin(uint64_t bytes) noexcept { margin_.store(bytes, std::memory_order_relaxed); }

 private:
  struct Tag {
    std::string name;
    std::array<std::atomic<gpupool_t*>, kDevices> pools{};
  };

  gpupool_status_t use(size_t number, int device, gpupool_t*& pool);
  void release(gpupool_t* pool, gpupool_ptr_t ptr, void* stream) noexcept;
  bool leaves_margin(uint64_t size, int device) const noexcept;

  std::atomic<uint64_t> margin_{0};
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::array<Tag, kTags> tags_;
};

}  // namespace gpupool::torch
