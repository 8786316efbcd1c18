// SPDX-License-Identifier: Apache-2.0
// Single blocks for which sleep matters: those that sleep alone, or may, and those that are saved in any
// case. Each has a mark, so that its free comes to the pool's lock.
#pragma once

#include <unordered_set>
#include <vector>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/request/keeper.hpp"

namespace gpupool::internal {

class AsleepChunks;
class SavedBytes;
class SleepHooks;
class Reclaimer;

/// Guarded by the pool's lock.
class LoneBlocks final : public Keeper, NoCopy {
 public:
  LoneBlocks(PoolState& pool, AsleepChunks& chunks, SavedBytes& saved, SleepHooks& hooks) noexcept
      : pool_(pool), chunks_(chunks), saved_(saved), hooks_(hooks) {}

  /// A block's way to sleep or back in an awake pool. While it lives, a free of the block waits for its end,
  /// so that the plan's chunks stay. The lock must be held when it ends.
  class Transit : NoCopy {
   public:
    Transit(LoneBlocks& blocks, Reclaimer& reclaimer, Address block) noexcept
        : blocks_(blocks), reclaimer_(reclaimer) {
      blocks_.transit_ = block;
    }
    ~Transit();

   private:
    LoneBlocks& blocks_;
    Reclaimer& reclaimer_;
  };

  /// Blocks of which a sleep with a target may choose. A free of one comes to the pool's lock, which forgets
  /// it: what is at the same address later is another block. The lock must be held when it ends.
  class Watch : NoCopy {
   public:
    explicit Watch(LoneBlocks& blocks) noexcept : blocks_(blocks) {}
    ~Watch();

    /// Throws std::bad_alloc.
    void add(Address address);

   private:
    LoneBlocks& blocks_;
  };

  /// Those that sleep alone, by address. Throws std::bad_alloc.
  std::vector<Address> all() const;
  bool is_watched(Address block) const noexcept { return watched_.contains(block); }
  bool is_kept(Address block) const noexcept { return kept_.contains(block); }

  /// Whether a live block is saved in any case. Throws std::bad_alloc.
  Status set_keep(Range& block, bool keep);
  /// Forgets a block that is freed, but not that it sleeps alone.
  void note_free(Address address) noexcept override;

  /// From here on the block's free comes to take(). Throws std::bad_alloc.
  Status mark(Range& block);
  /// Promises a marked block so many records for its free. Throws std::bad_alloc.
  void promise(Address address, size_t records);
  /// The block is awake: its free need not be noticed any more.
  void end(Address address) noexcept;
  /// So are all.
  void end_all() noexcept {
    while (!pool_.gate.alone.empty()) end(pool_.gate.alone.begin()->first);
  }

  /// Frees a block of which chunks may be asleep to its heap: their addresses become bare. While the pool
  /// wakes, they may be in its plan, and drop_freed() sees to that at the end.
  void take(Range& block) noexcept override;
  /// The pool is awake. What was freed of the blocks that sleep alone, while it was not, is dropped now.
  void drop_freed() noexcept;

 private:
  /// From here on a free of the block comes to the pool's lock. False if it has been freed.
  bool add_mark(Range& block) noexcept;
  /// A free of the block need not come to the pool's lock any more, unless something else still asks for it.
  void remove_mark(Address address) noexcept;

  PoolState& pool_;
  AsleepChunks& chunks_;
  SavedBytes& saved_;
  SleepHooks& hooks_;
  std::unordered_set<Address> kept_;
  std::unordered_set<Address> watched_;
  size_t freed_records_ = 0;  // promised to blocks that were freed while the pool was not awake
  Address transit_ = 0;       // the block on its way to sleep or back while the pool is awake
  Range* freed_ = nullptr;    // that block, if it was freed meanwhile
};

}  // namespace gpupool::internal
