// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/block_history.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace gpupool::internal {

BlockRecord& BlockHistory::add(const BlockRecord& life) {
  return in_use_.insert_or_assign(life.address, life).first->second;
}

BlockRecord* BlockHistory::find(Address address) noexcept {
  const auto found = in_use_.find(address);
  return found == in_use_.end() ? nullptr : &found->second;
}

void BlockHistory::move_to_gone(Address address) noexcept {
  const auto found = in_use_.find(address);
  if (found == in_use_.end()) return;
  try {
    gone_.push_back(found->second);
    if (gone_.size() > kGone) gone_.pop_front();
  } catch (const std::bad_alloc&) {
    // The block is forgotten sooner.
  }
  in_use_.erase(found);
}

BlockRecord* BlockHistory::find(Address address, uint64_t number) noexcept {
  const auto after = in_use_.upper_bound(address);
  if (after != in_use_.begin() && std::prev(after)->second.number == number) return &std::prev(after)->second;
  const auto found = std::find_if(gone_.rbegin(), gone_.rend(),
                                  [&](const BlockRecord& life) { return life.number == number; });
  return found == gone_.rend() ? nullptr : &*found;
}

const BlockRecord* BlockHistory::holder(Address address) const noexcept {
  if (const BlockRecord* before = below(address + 1); before != nullptr && before->holds(address))
    return before;
  const auto found = std::find_if(gone_.rbegin(), gone_.rend(),
                                  [&](const BlockRecord& life) { return life.holds(address); });
  return found == gone_.rend() ? nullptr : &*found;
}

const BlockRecord* BlockHistory::below(Address address) const noexcept {
  const auto after = in_use_.lower_bound(address);
  return after == in_use_.begin() ? nullptr : &std::prev(after)->second;
}

const BlockRecord* BlockHistory::above(Address address) const noexcept {
  const auto found = in_use_.upper_bound(address);
  return found == in_use_.end() ? nullptr : &found->second;
}

}  // namespace gpupool::internal
