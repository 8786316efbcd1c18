// SPDX-License-Identifier: Apache-2.0
// What the pool holds of the device's memory, counted here and nowhere else.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "base/bits.hpp"
#include "core/budget.hpp"
#include "core/counters.hpp"

namespace gpupool::internal {

/// Follows reserved memory through its life: charged to the budget, created, attached to a heap of a size
/// group, detached, released. Guarded by the pool's lock, except the budget, which guards itself.
class Ledger {
 public:
  Ledger() = default;
  /// For a pool that shares another pool's limit.
  explicit Ledger(std::shared_ptr<Limit> shared) noexcept : budget_(std::move(shared)) {}

  Budget& budget() noexcept { return budget_; }
  const Budget& budget() const noexcept { return budget_; }
  uint64_t used() const noexcept { return budget_.used(); }

  void created(uint64_t size) noexcept {
    reserved_.add(size);
    chunks_.add(1);
    ++by_size_[log2_floor(size)];
  }
  /// The device has the memory again.
  void released(uint64_t size) noexcept {
    reserved_.subtract(size);
    chunks_.subtract(1);
    --by_size_[log2_floor(size)];
    budget_.refund(size);
  }
  void attached(SizeGroup group, uint64_t size) noexcept {
    group_reserved_[index(group)].add(size);
    group_chunks_[index(group)].add(1);
  }
  void detached(SizeGroup group, uint64_t size) noexcept {
    group_reserved_[index(group)].subtract(size);
    group_chunks_[index(group)].subtract(1);
  }

  /// Counts chunks that now back other addresses, or belong to another stream.
  void stole(uint64_t chunks, bool is_of_another_stream) noexcept {
    steals_ += chunks;
    if (is_of_another_stream) stream_steals_ += chunks;
  }

  const Flow& reserved() const noexcept { return reserved_; }
  const Flow& chunks() const noexcept { return chunks_; }
  const Flow& reserved(SizeGroup group) const noexcept { return group_reserved_[index(group)]; }
  const Flow& chunks(SizeGroup group) const noexcept { return group_chunks_[index(group)]; }

  /// How many chunks, except those asleep, have a size from this power of two up to the next.
  static constexpr size_t kSizes = 64;
  uint64_t chunks_of_size(unsigned log2) const noexcept { return by_size_[log2]; }

  uint64_t steals() const noexcept { return steals_; }
  uint64_t stream_steals() const noexcept { return stream_steals_; }

  /// The counts at one moment, to tell later what has changed since.
  struct Totals {
    uint64_t bytes_created;
    uint64_t chunks_created;
    uint64_t bytes_released;
    uint64_t chunks_released;
    uint64_t steals;
  };
  Totals totals() const noexcept { return {reserved_.in, chunks_.in, reserved_.out, chunks_.out, steals_}; }

  void reset_peaks() noexcept {
    for (Flow* flow : {&reserved_, &chunks_, &group_reserved_[0], &group_reserved_[1], &group_chunks_[0],
                       &group_chunks_[1]}) {
      flow->peak = flow->current;
    }
  }

 private:
  static constexpr size_t index(SizeGroup group) noexcept { return static_cast<size_t>(index_of(group)); }

  Budget budget_;
  Flow reserved_;
  Flow chunks_;
  std::array<uint64_t, kSizes> by_size_{};
  std::array<Flow, kGroups> group_reserved_;
  std::array<Flow, kGroups> group_chunks_;
  uint64_t steals_ = 0;
  uint64_t stream_steals_ = 0;
};

}  // namespace gpupool::internal
