// SPDX-License-Identifier: Apache-2.0
// What the pool holds of the device: counted here, and nowhere else.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "core/budget.hpp"
#include "core/counters.hpp"

namespace gpupool::internal {

/// Reserved memory over its life: taken from the budget, created, attached to a group's heap, detached,
/// released. Guarded by the pool's lock but for the budget, which guards itself.
class Ledger {
 public:
  Ledger() = default;
  /// Of a pool whose limit is another one's.
  explicit Ledger(std::shared_ptr<Limit> shared) noexcept : budget_(std::move(shared)) {}

  Budget& budget() noexcept { return budget_; }
  const Budget& budget() const noexcept { return budget_; }
  uint64_t used() const noexcept { return budget_.used(); }

  void created(uint64_t size) noexcept {
    reserved_.add(size);
    chunks_.add(1);
  }
  /// The device has it again.
  void released(uint64_t size) noexcept {
    reserved_.subtract(size);
    chunks_.subtract(1);
    budget_.put(size);
  }
  void attached(Group group, uint64_t size) noexcept {
    group_reserved_[index(group)].add(size);
    group_chunks_[index(group)].add(1);
  }
  void detached(Group group, uint64_t size) noexcept {
    group_reserved_[index(group)].subtract(size);
    group_chunks_[index(group)].subtract(1);
  }

  const Flow& reserved() const noexcept { return reserved_; }
  const Flow& chunks() const noexcept { return chunks_; }
  const Flow& reserved(Group group) const noexcept { return group_reserved_[index(group)]; }
  const Flow& chunks(Group group) const noexcept { return group_chunks_[index(group)]; }

  void reset_peaks() noexcept {
    for (Flow* flow : {&reserved_, &chunks_, &group_reserved_[0], &group_reserved_[1], &group_chunks_[0],
                       &group_chunks_[1]}) {
      flow->peak = flow->current;
    }
  }

 private:
  static constexpr size_t index(Group group) noexcept { return static_cast<size_t>(index_of(group)); }

  Budget budget_;
  Flow reserved_;
  Flow chunks_;
  std::array<Flow, kGroups> group_reserved_;
  std::array<Flow, kGroups> group_chunks_;
};

}  // namespace gpupool::internal
