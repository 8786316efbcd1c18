// SPDX-License-Identifier: Apache-2.0
// Single blocks for which sleep matters: those that sleep alone, or may, and those that are saved in any
// case. Each has a mark, so that its free comes to the pool's lock.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.hpp"
#include "core/space.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

class AsleepChunks;
class SavedBytes;
class SleepHooks;
class WayBack;

/// Guarded by the pool's lock.
class LoneBlocks {
 public:
  LoneBlocks(Space& space, AsleepChunks& chunks, SavedBytes& saved, SleepHooks& hooks,
             const gpupool_sleep_state_t& state) noexcept
      : space_(space), chunks_(chunks), saved_(saved), hooks_(hooks), state_(state) {}
  LoneBlocks(const LoneBlocks&) = delete;
  LoneBlocks& operator=(const LoneBlocks&) = delete;

  /// A block's way to sleep or back in an awake pool. While it lives, a free of the block waits for its end,
  /// so that the plan's chunks stay. The lock must be held when it ends.
  class Transit {
   public:
    Transit(LoneBlocks& blocks, WayBack& way_back, Address block) noexcept
        : blocks_(blocks), way_back_(way_back) {
      blocks_.transit_ = block;
    }
    Transit(const Transit&) = delete;
    Transit& operator=(const Transit&) = delete;
    ~Transit();

   private:
    LoneBlocks& blocks_;
    WayBack& way_back_;
  };

  /// Blocks of which a sleep with a target may choose. A free of one comes to the pool's lock, which forgets
  /// it: what is at the same address later is another block. The lock must be held when it ends.
  class Watch {
   public:
    explicit Watch(LoneBlocks& blocks) noexcept : blocks_(blocks) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

    /// Throws std::bad_alloc.
    void add(Address address);

   private:
    LoneBlocks& blocks_;
  };

  /// Whether a block sleeps alone, or is about to: free it with free_block().
  bool is_alone(Address block) const noexcept { return !alone_.empty() && alone_.contains(block); }
  bool any_alone() const noexcept { return !alone_.empty(); }
  /// Those that sleep alone, by address. Throws std::bad_alloc.
  std::vector<Address> all() const;
  bool is_watched(Address block) const noexcept { return watched_.contains(block); }
  bool is_kept(Address block) const noexcept { return kept_.contains(block); }

  /// Whether a live block is saved in any case. Throws std::bad_alloc.
  Status set_keep(Range& block, bool keep);
  /// Forgets a block that is freed, but not that it sleeps alone.
  void forget(Address address) noexcept;

  /// From here on the block's free comes to free_block(). Throws std::bad_alloc.
  Status mark(Range& block);
  /// Promises a marked block so many records for its free. Throws std::bad_alloc.
  void promise(Address address, size_t records);
  /// The block is awake: its free need not be noticed any more.
  void end(Address address) noexcept;
  /// So are all.
  void end_all() noexcept {
    while (!alone_.empty()) end(alone_.begin()->first);
  }

  /// Frees a block of which chunks may be asleep to its heap: their addresses become bare. While the pool
  /// wakes, they may be in its plan, and drop_freed() sees to that at the end.
  void free_block(Range& block) noexcept;
  /// The pool is awake. What was freed of the blocks that sleep alone, while it was not, is dropped now.
  void drop_freed() noexcept;

 private:
  /// From here on a free of the block comes to the pool's lock. False if it has been freed.
  bool add_mark(Range& block) noexcept;
  /// A free of the block need not come to the pool's lock any more, unless something else still asks for it.
  void remove_mark(Address address) noexcept;

  Space& space_;
  AsleepChunks& chunks_;
  SavedBytes& saved_;
  SleepHooks& hooks_;
  const gpupool_sleep_state_t& state_;         // the pool's
  std::unordered_map<Address, size_t> alone_;  // each with how many records it was promised for its free
  std::unordered_set<Address> kept_;
  std::unordered_set<Address> watched_;
  size_t freed_records_ = 0;  // promised to blocks that were freed while the pool was not awake
  Address transit_ = 0;       // the block on its way to sleep or back while the pool is awake
  Range* freed_ = nullptr;    // that block, if it was freed meanwhile
};

}  // namespace gpupool::internal
