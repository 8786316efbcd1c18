// SPDX-License-Identifier: Apache-2.0
// What a pool with debug modes knows of its blocks: which block lies or lay where, and who made and freed it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "core/size.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {

/// A block, from its malloc to its free and beyond.
struct BlockRecord {
  Address address = 0;
  uint64_t requested = 0;  // what the caller asked for
  uint64_t room = 0;       // what the pool gave
  uint64_t number = 0;     // counts the pool's blocks, from 1
  Stream stream = 0;
  Stream freed_on = 0;
  uint64_t born_ns = 0;
  uint64_t died_ns = 0;  // 0: live
  StackId made_by = 0;
  StackId freed_by = 0;
  uint32_t made_in = 0;  // threads, by the system's numbers
  uint32_t freed_in = 0;
  TagId tag = 0;
  bool has_canary = false;
  bool is_damaged = false;         // beyond its end, and that was told
  bool is_damaged_inside = false;  // after its free, and that was told
  bool is_poisoned = false;        // since its free
  bool is_fenced = false;
  bool is_captured = false;  // a graph may write it at any time, on any stream, also after its free

  Address end() const noexcept { return address + room; }
  bool holds(Address at) const noexcept { return at - address < room; }
};

/// Guarded by the pool's lock.
class BlockHistory {
 public:
  /// How many of the blocks that are gone it remembers.
  static constexpr size_t kGone = 65536;

  /// Throws std::bad_alloc before anything has changed.
  BlockRecord& add(const BlockRecord& life);
  /// The block that begins at an address: live, or freed but not yet handed out again. Null: none.
  BlockRecord* find(Address address) noexcept;
  /// From here on, the block's memory may be another block's.
  void move_to_gone(Address address) noexcept;

  /// A block that holds an address or did, by its number; null: it is forgotten.
  BlockRecord* find(Address address, uint64_t number) noexcept;

  /// The block in use that holds an address, else the last one that did before it was gone; null: none.
  const BlockRecord* holder(Address address) const noexcept;
  /// The nearest blocks in use below and above an address.
  const BlockRecord* below(Address address) const noexcept;
  const BlockRecord* above(Address address) const noexcept;

  /// Calls visit(life) for each block in use from an address on, until that returns false.
  template <typename Visit>
  void for_each_from(Address address, Visit visit) {
    for (auto it = in_use_.lower_bound(address); it != in_use_.end(); ++it) {
      if (!visit(it->second)) return;
    }
  }

 private:
  std::map<Address, BlockRecord> in_use_;
  std::deque<BlockRecord> gone_;  // the most recent one last
};

}  // namespace gpupool::internal
