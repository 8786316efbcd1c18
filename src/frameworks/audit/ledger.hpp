// SPDX-License-Identifier: Apache-2.0
// What the driver has given to this process: which address, handle and mapping is how much of which account.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "frameworks/audit/account.hpp"
#include "frameworks/audit/pool_list.hpp"
#include "frameworks/audit/table.hpp"
#include "frameworks/audit/types.hpp"

namespace gpupool::audit {

struct Block {
  uint64_t bytes;
  CUcontext context;  // with which it ends
  int device;
  Kind kind;
  uint8_t pool = 0;  // of Kind::pool: its number
};

class Ledger {
 public:
  static constexpr int kMostDevices = 64;  // of others, nothing is counted

  /// The only one. It is zeros to begin with, and again in a forked child, where no lock is held then: the
  /// driver's memory is not the child's.
  static Ledger& get() noexcept;
  /// Before the program begins. False: the host has no memory.
  static bool begin() noexcept;
  static bool has(int device) noexcept { return device >= 0 && device < kMostDevices; }

  enum class Joined : uint8_t { no, soon, yes };
  struct Device {
    Account account;
    Pooled graphs;
    std::atomic<bool> is_seen;
    std::atomic<Joined> joined;    // the group, or found no place in it
    std::atomic<uint64_t> before;  // what NVML said this process had when it was seen first; see coverage.hpp
  };
  Device& device(int number) noexcept { return devices_[static_cast<size_t>(number)]; }
  template <typename Function>
  void for_each_seen(Function function) noexcept {
    const int end = end_of_seen_.load(std::memory_order_acquire);
    for (int number = 0; number < end; ++number)
      if (device(number).is_seen.load(std::memory_order_acquire)) function(number);
  }
  /// False: it was known already.
  bool see(int number) noexcept {
    int end = end_of_seen_;
    while (end <= number && !end_of_seen_.compare_exchange_weak(end, number + 1)) {
    }
    return !device(number).is_seen.exchange(true);
  }
  PoolList& pools() noexcept { return pools_; }

  // ---- blocks, by address or by handle of an array

  /// What has been taken of an account, and given by the driver; before the program knows. False: the host
  /// has no memory to write it down.
  bool put(uint64_t address, const Block& block) noexcept;
  /// Before the driver has it back, since another thread may be given the address next. Its bytes stay taken
  /// until `end` says so.
  bool remove(uint64_t address, Block& block) noexcept;
  void end(const Block& block) noexcept;
  /// The driver would not have it back.
  bool insert(uint64_t address, const Block& block) noexcept;
  void end_context(CUcontext context) noexcept;

  // ---- chunks of cuMemCreate, which live until they have neither a handle nor a mapping

  /// False: as with `put`.
  bool create(CUmemGenericAllocationHandle handle, int device, uint64_t bytes) noexcept;
  /// The driver has told the handle of what is mapped around an address.
  void retain(CUmemGenericAllocationHandle handle, uint64_t address) noexcept;
  /// Before the driver has it back; 0: it is not known. `keep` undoes it, `drop` goes through with it.
  uint64_t release(CUmemGenericAllocationHandle handle) noexcept;
  void keep(CUmemGenericAllocationHandle handle, uint64_t chunk) noexcept;
  void drop(uint64_t chunk) noexcept;
  void map(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle) noexcept;
  void unmap(uint64_t address, uint64_t bytes) noexcept;

 private:
  struct Chunk {
    uint64_t bytes;
    uint64_t handles;   // how often it is held by its handle
    uint64_t releases;  // of these, which the driver is being told of
    uint64_t mappings;
    int device;
  };
  struct Mapping {
    uint64_t bytes;
    uint64_t chunk;
  };
  /// By address, so that threads seldom meet.
  struct alignas(64) Shard {
    SpinLock lock;
    Table<Block> blocks;
  };
  static constexpr size_t kShards = 64;

  Shard& shard_of(uint64_t address) noexcept {
    return shards_[hash_of(address) / (UINT64_MAX / kShards + 1)];
  }
  void end_if_unused(uint64_t chunk) noexcept;

  std::array<Device, kMostDevices> devices_;
  std::atomic<int> end_of_seen_;  // most processes use few
  PoolList pools_;
  std::array<Shard, kShards> shards_;

  SpinLock lock_;  // of all below
  uint64_t last_chunk_;
  Table<Chunk> chunks_;      // by a number of their own: the driver gives a released handle again
  Table<uint64_t> handles_;  // the chunk of each
  Table<Mapping> mappings_;
};

}  // namespace gpupool::audit
