// SPDX-License-Identifier: Apache-2.0
// What a pool is, for all its rooms: its options, its device, its records, and the lock that guards them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/defer.hpp"
#include "base/no_copy.hpp"
#include "core/chunk_sizer.hpp"
#include "core/counters.hpp"
#include "core/space.hpp"
#include "pool/cache/caches.hpp"
#include "pool/memory/backing.hpp"
#include "pool/memory/gate.hpp"
#include "pool/memory/pool_log.hpp"
#include "pool/memory/retention.hpp"
#include "pool/memory/surplus.hpp"
#include "pool/rules/group_limit.hpp"
#include "pool/rules/ledger.hpp"
#include "pool/rules/metered_device.hpp"
#include "pool/rules/options.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/stream/captures.hpp"
#include "pool/stream/pending.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// Where a pool stands.
enum class Life : uint32_t { live = 1, destroyed = 2, gone = 3, forked = 4, exiting = 5, lost = 6 };

/// How often mallocs found too little memory, and how that went on.
struct ShortageCounts {
  uint64_t retries = 0;
  uint64_t handler_calls = 0;
  uint64_t failed_mallocs = 0;
  bool no_addresses = false;  // that, not memory, was what the last one lacked
};

/// Guarded by its lock, except what guards itself: the device, the budget, and the map of blocks, which needs
/// no lock to be read. Outlives every room of the pool.
struct PoolState : NoCopy {
  PoolState(std::shared_ptr<Device> its_device, const PoolOptions& its_options);
  struct Child {};
  /// A child's: shares the parent's device, limit and announcements.
  PoolState(Child, PoolState& parent);

  /// Takes the lock for a call, and begins a new round of questions to the driver. What the call changes is
  /// shown to other processes as it leaves.
  PoolLock enter() {
    PoolLock lock(mutex, onlooker);
    streams.next_round();
    return lock;
  }
  /// Leaves the pool to others while a function runs, and enters again: with a new round of questions.
  template <typename Function>
  auto leave_for(PoolLock& lock, Function function) {
    const Defer enter([&] { streams.next_round(); });
    return lock.give_up_for(function);
  }
  /// Takes the lock to look at something, or to change what nobody is shown.
  PoolLock look() { return PoolLock(mutex); }

  /// Shows what other processes see of it anew: it is known to be old. Call it with no lock held.
  void show_again() {
    const PoolLock lock(mutex, onlooker);
    has_news = true;
  }
  Life life() const noexcept {
    return where != nullptr ? where->load(std::memory_order_acquire) : Life::gone;
  }

  // Set once, right after creation.
  gpupool_t* handle = nullptr;
  uint64_t id = 0;
  const std::atomic<Life>* where = nullptr;  // the handle's
  PoolOptions options;
  GroupLink group;
  MeteredDevice device;
  ChunkSizer sizer;
  PoolMutex mutex;
  Onlooker* onlooker = nullptr;  // shows what has changed
  bool has_news = false;         // for whoever is shown the pool
  Ledger ledger;
  Space space;
  Streams streams;
  Caches caches;
  Pending pending;
  Counters counters;
  Captures captures{options, device, streams};
  Gate gate{streams};
  Retention retention{options, captures, gate};
  Surplus surplus{options, device, ledger, space, streams, counters};
  PoolLog log{id, ledger};
  Backing backing{device, ledger, space, retention, log};
  ShortageCounts shortages;
};

}  // namespace gpupool::internal
