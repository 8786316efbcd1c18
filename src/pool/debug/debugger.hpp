// SPDX-License-Identifier: Apache-2.0
// The pool's debug modes: see docs/debugging.md.
//
// If all blocks must be seen, threads' caches keep no lanes, so every malloc and free takes the long way and
// comes here. A pool without debug modes has no debugger, and its short way has not one instruction more.
// Guards alone leave the caches as they are: they replace a few of the blocks that are sampled anyway.
#pragma once

#include <cstdint>
#include <string>

#include "base/no_copy.hpp"
#include "pool/debug/block_history.hpp"
#include "pool/debug/fences.hpp"
#include "pool/debug/findings.hpp"
#include "pool/debug/inspector.hpp"
#include "pool/debug/quarantine.hpp"
#include "pool/request/keeper.hpp"
#include "pool/request/watched_call.hpp"
#include "pool/rules/debug_modes.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/rules/stream_user.hpp"

namespace gpupool::internal {

class SlowFree;
class SlowMalloc;
class Watcher;
class Reclaimer;
struct PoolState;
struct StreamState;

/// Guarded by the pool's lock, except what says otherwise.
class Debugger final : public Keeper, NoCopy {
 public:
  Debugger(PoolState& pool, SlowMalloc& slow_malloc, SlowFree& slow_free, Reclaimer& reclaimer,
           Watcher& watcher);

  const DebugModes& modes() const noexcept { return modes_; }

  // ---- with no lock held

  /// Allocates what the modes need. UNSUPPORTED if the device lacks something that they need.
  Status begin();
  Status malloc(uint64_t size, uint64_t alignment, const StreamUser& user, Address& address);
  Status free(Address address, const StreamUser& user);
  /// May put a guard in place of a block that has just been handed out and is sampled.
  void guard(const StreamUser& user, const WatchedCall& seen, uint64_t alignment, Address& address);
  /// Looks at all blocks, live or in quarantine, and waits for that. Gives the number of findings so far, and
  /// the last of them in words. Throws std::bad_alloc.
  Status check(uint64_t& count, std::string& text);

  // ---- with the pool's lock

  void take(Range& block) noexcept override;
  /// Lets blocks in quarantine be reused, and unmaps the fences that streams have passed. Without `all`, only
  /// if they wait for nothing but until there are enough for a look.
  bool release(bool all) noexcept override;
  void leave(Stream stream) noexcept override { quarantine_.look_at(stream); }
  /// Memory has come back from sleep without the bytes that were in it, canaries among them.
  void renew_canaries(Address start, uint64_t size) noexcept;
  /// Call it at the pool's end. Gives the lock up meanwhile.
  void end(PoolLock& lock) noexcept;

  const BlockHistory& book() const noexcept { return history_; }

 private:
  /// Bytes behind each block, for a canary or as closed memory.
  static constexpr uint64_t kApart = 512;
  static constexpr size_t kMostGuards = 64;

  bool wants_fence(uint64_t size) const noexcept;
  bool is_of_graph(const BlockRecord& life) const noexcept;
  Status allocate(uint64_t size, uint64_t alignment, const StreamUser& user, Address& address,
                  WatchedCall& seen);
  Status allocate_fenced(uint64_t size, uint64_t alignment, StreamUser user, Address& address,
                         WatchedCall& seen);
  void begin_life(Address address, uint64_t size, StackId stack) noexcept;
  Status tell_story_of(Address address, Status status);
  void wait_for_work();
  void close_block(const BlockRecord& life, bool is_captured) noexcept;
  void sweep() noexcept;
  void allow_reuse(Range& block) noexcept;
  bool may_guard() noexcept;
  bool look_at_lives(Address& from) noexcept;

  PoolState& pool_;
  SlowMalloc& slow_malloc_;
  SlowFree& slow_free_;
  Reclaimer& reclaimer_;
  Watcher& watcher_;
  const DebugModes& modes_;  // the pool's
  BlockHistory history_;
  Inspector inspector_;
  Findings findings_;
  Quarantine quarantine_;
  Fences fences_;
  uint64_t number_ = 0;
  uint64_t unfenced_ = 0;  // blocks without a fence, for want of memory
  uint64_t guard_ns_ = 0;  // time that guards took
  bool is_ending_ = false;
};

}  // namespace gpupool::internal
