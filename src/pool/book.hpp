// SPDX-License-Identifier: Apache-2.0
// The address book of a pool that is debugged: what lies where, what lay there, and who did it.
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
  uint64_t requested = 0;  // as the caller asked for it
  uint64_t room = 0;       // as the pool gave it
  uint64_t number = 0;     // counted from 1 in the pool
  Stream stream = 0;
  Stream freed_on = 0;
  uint64_t born_ns = 0;
  uint64_t died_ns = 0;  // 0: live
  StackId made_by = 0;
  StackId freed_by = 0;
  uint32_t made_in = 0;  // the system's numbers of threads
  uint32_t freed_in = 0;
  TagId tag = 0;
  bool has_canary = false;
  bool is_poisoned = false;  // since its free
  bool is_fenced = false;

  Address end() const noexcept { return address + room; }
  bool holds(Address at) const noexcept { return at - address < room; }
};

/// Guarded by the pool's lock.
class AddressBook {
 public:
  /// How many blocks that are gone it remembers.
  static constexpr size_t kGone = 65536;

  /// Throws std::bad_alloc before anything has changed.
  BlockRecord& add(const BlockRecord& life);
  /// The block that begins at an address: live, or freed and not handed out again yet. Null: none.
  BlockRecord* find(Address address) noexcept;
  /// Its memory may be another's from here on.
  void move_to_gone(Address address) noexcept;

  /// The block that holds an address, or, of those that are gone, the last one that did.
  const BlockRecord* holder(Address address) const noexcept;
  /// The nearest ones in use below and above.
  const BlockRecord* below(Address address) const noexcept;
  const BlockRecord* above(Address address) const noexcept;

  /// Calls visit(life) for each in use from an address on, until it returns false.
  template <typename Visit>
  void for_each_from(Address address, Visit visit) {
    for (auto it = in_use_.lower_bound(address); it != in_use_.end(); ++it) {
      if (!visit(it->second)) return;
    }
  }

 private:
  std::map<Address, BlockRecord> in_use_;
  std::deque<BlockRecord> gone_;  // the last at the end
};

}  // namespace gpupool::internal
