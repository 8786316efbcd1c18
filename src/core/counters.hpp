// SPDX-License-Identifier: Apache-2.0
// Statistics: cheap to count in each thread's cache, exact when summed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/size.hpp"

namespace gpupool::internal {

/// A quantity with its history, exact; guarded by the pool's lock.
struct Flow {
  uint64_t current = 0;
  uint64_t peak = 0;
  uint64_t in = 0;
  uint64_t out = 0;

  void add(uint64_t amount) noexcept {
    current += amount;
    in += amount;
    if (current > peak) peak = current;
  }
  void subtract(uint64_t amount) noexcept {
    current -= amount;
    out += amount;
  }
};

/// Requested bytes, allocated bytes and blocks.
struct Amounts {
  uint64_t requested = 0;
  uint64_t allocated = 0;
  uint64_t blocks = 0;

  Amounts& operator+=(const Amounts& other) noexcept {
    requested += other.requested;
    allocated += other.allocated;
    blocks += other.blocks;
    return *this;
  }
  Amounts& operator-=(const Amounts& other) noexcept {
    requested -= other.requested;
    allocated -= other.allocated;
    blocks -= other.blocks;
    return *this;
  }
  /// In any of the three states.
  bool exceeds(const Amounts& other) const noexcept {
    return (requested > other.requested) | (allocated > other.allocated) | (blocks > other.blocks);
  }
  void raise_to(const Amounts& other) noexcept {
    requested = std::max(requested, other.requested);
    allocated = std::max(allocated, other.allocated);
    blocks = std::max(blocks, other.blocks);
  }
  /// What a sum modulo 2^64 has below zero becomes 0.
  void end_at_zero() noexcept {
    for (uint64_t* each : {&requested, &allocated, &blocks}) {
      if (*each > INT64_MAX) *each = 0;
    }
  }
  friend Amounts operator+(Amounts a, const Amounts& b) noexcept { return a += b; }
  friend Amounts operator-(Amounts a, const Amounts& b) noexcept { return a -= b; }
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

/// Per group, and for all blocks.
using GroupAmounts = std::array<Amounts, kGroups>;

/// What one thread's cache has counted. Guarded by the cache's lock. A block counts where it was allocated,
/// whichever thread frees it, so no figure is ever negative.
///
/// Between two folds (see Counters), a shard remembers the most that it held. Once that has grown by its
/// allowance, count() and raise() ask for the next fold.
class CounterShard {
 public:
  /// The minimum allowance: the bound that gpupool_stat_t states.
  static constexpr uint64_t kAllowanceBytes = 16 * kMiB;
  static constexpr uint64_t kAllowanceBlocks = 4096;

  /// Counts a block. Returns true if that may raise a peak: then call raise(). On the hot path: two additions
  /// and two comparisons, and it writes only the sums.
  bool count(SizeGroup group, uint64_t requested, uint64_t allocated) noexcept {
    const Amounts block{requested, allocated, 1};
    const auto at = static_cast<size_t>(index_of(group));
    total_[at] += block;
    live_[at] += block;
    const bool of_group = live_[at].exceeds(watch_[at]);
    const bool of_all = (live_[0] + live_[1]).exceeds(watch_[kGroups]);
    return of_group | of_all;  // one branch
  }

  /// Records what count() has raised. True if that exceeds the allowance: then nothing is recorded, and the
  /// pool must fold all shards before the malloc returns. The block counts from the fold on, together with
  /// what the other shards hold then; together with the most that they held since the last fold, it would
  /// raise the peak too far.
  bool raise(SizeGroup group) noexcept {
    if (watches_all_ && !is_peak(group)) return false;
    for (size_t at = 0; at < kSums; ++at) {
      const Amounts live = live_of(at);
      if (live.exceeds(allowed_[at].live) || (live + pending_of(at)).exceeds(allowed_[at].active))
        return true;
    }
    for (size_t at = 0; at < kSums; ++at) {
      const Amounts live = live_of(at);
      reached_[at].live.raise_to(live);
      reached_[at].active.raise_to(live + pending_of(at));
    }
    set_watch();
    return false;
  }

  /// Both.
  bool add(SizeGroup group, uint64_t requested, uint64_t allocated) noexcept {
    return count(group, requested, allocated) && raise(group);
  }

  void subtract(SizeGroup group, uint64_t requested, uint64_t allocated) noexcept {
    live_[static_cast<size_t>(index_of(group))] -= {requested, allocated, 1};
  }

  /// A block that was subtract()ed still waits for streams, or no longer does.
  void add_pending(SizeGroup group, uint64_t requested, uint64_t allocated) noexcept {
    pending_[static_cast<size_t>(index_of(group))] += {requested, allocated, 1};
    set_watch();
  }
  void remove_pending(SizeGroup group, uint64_t requested, uint64_t allocated) noexcept {
    pending_[static_cast<size_t>(index_of(group))] -= {requested, allocated, 1};
    set_watch();
  }

  /// Makes count() ask for raise() after every malloc, or after each one that takes the live bytes above a
  /// level.
  void watch_for(bool all, uint64_t level) noexcept {
    watches_all_ = all;
    level_ = level;
    set_watch();
  }
  bool watches_all() const noexcept { return watches_all_; }
  bool is_above_level() const noexcept { return live_bytes() > level_; }
  uint64_t live_bytes() const noexcept { return live_[0].allocated + live_[1].allocated; }
  /// What the shard adds to a peak at the next fold.
  uint64_t most_live_bytes() const noexcept { return reached_[kGroups].live.allocated; }

  const GroupAmounts& total() const noexcept { return total_; }
  const GroupAmounts& live() const noexcept { return live_; }
  const GroupAmounts& pending() const noexcept { return pending_; }

  /// All mallocs, and those of them that the cache could not serve.
  uint64_t mallocs() const noexcept { return total_[0].blocks + total_[1].blocks; }
  uint64_t misses = 0;

 private:
  friend class Counters;

  /// Small blocks, large blocks, and all.
  static constexpr size_t kSums = kGroups + 1;

  /// Live: handed out. Active: pending as well.
  struct Level {
    Amounts live;
    Amounts active;
  };
  static constexpr Amounts kLeast{kAllowanceBytes, kAllowanceBytes, kAllowanceBlocks};
  static constexpr Level kLeastLevel{kLeast, kLeast};

  Amounts live_of(size_t at) const noexcept { return at < kGroups ? live_[at] : live_[0] + live_[1]; }
  Amounts pending_of(size_t at) const noexcept {
    return at < kGroups ? pending_[at] : pending_[0] + pending_[1];
  }

  /// Whether count() would have asked for raise() anyway.
  bool is_peak(SizeGroup group) const noexcept {
    const auto at = static_cast<size_t>(index_of(group));
    const bool of_group = live_[at].exceeds(peak_watch_[at]);
    const bool of_all = live_of(kGroups).exceeds(peak_watch_[kGroups]);
    return of_group || of_all;
  }

  /// Live memory can reach this level before either peak rises.
  void set_watch() noexcept {
    for (size_t at = 0; at < kSums; ++at) {
      const Amounts room = reached_[at].active - pending_of(at);
      watch_[at] = {std::min(reached_[at].live.requested, room.requested),
                    std::min(reached_[at].live.allocated, room.allocated),
                    std::min(reached_[at].live.blocks, room.blocks)};
    }
    peak_watch_ = watch_;
    watch_[kGroups].allocated = std::min(watch_[kGroups].allocated, level_);
    if (watches_all_) watch_[kGroups] = {};
  }

  GroupAmounts live_{};  // first, beside the cache's lock: all that a free by another thread changes
  GroupAmounts total_{};
  std::array<Amounts, kSums> watch_{};
  GroupAmounts pending_{};
  uint64_t level_ = UINT64_MAX;  // level of live bytes above which mallocs are watched
  bool watches_all_ = false;
  std::array<Amounts, kSums> peak_watch_{};  // what watch_ would be for peaks alone
  std::array<Level, kSums> reached_{};       // since the last fold
  std::array<Level, kSums> allowed_ = {kLeastLevel, kLeastLevel, kLeastLevel};  // until the next one
};

/// The pool's side: peaks. Guarded by the pool's lock.
///
/// A fold looks at all shards at one moment. The pool never held more since the last fold than the sum of
/// what each shard reached, so peaks are never too low. With one shard they are exact. Several shards need
/// not have reached their maximum at the same moment: each may have risen by its allowance since the fold,
/// which bounds how far a peak is too high. Far below a known peak, allowances are larger, because there is
/// nothing to learn.
class Counters {
 public:
  struct Peaks {
    Amounts live;
    Amounts active;
  };

  /// `for_each` calls its argument with every shard; all of them are locked.
  template <typename ForEach>
  void fold(ForEach for_each) noexcept {
    std::array<Peaks, CounterShard::kSums> reached{};
    std::array<Peaks, CounterShard::kSums> now{};
    uint64_t shards = 0;
    for_each([&](const CounterShard& shard) {
      ++shards;
      for (size_t at = 0; at < reached.size(); ++at) {
        reached[at].live += shard.reached_[at].live;
        reached[at].active += shard.reached_[at].active;
        now[at].live += shard.live_of(at);
        now[at].active += shard.live_of(at) + shard.pending_of(at);
      }
    });
    for (size_t at = 0; at < reached.size(); ++at) {
      for (const Peaks& sums : {with_parts(reached[at], at), with_parts(now[at], at)}) {
        peaks_with_parts_[at].live.raise_to(sums.live);
        peaks_with_parts_[at].active.raise_to(sums.active);
      }
      peaks_[at].live.raise_to(reached[at].live);
      peaks_[at].live.raise_to(now[at].live);
      peaks_[at].active.raise_to(reached[at].active);
      peaks_[at].active.raise_to(now[at].active);
    }
    restart(for_each, now, shards);
  }

  /// Sets every peak to the current value. `for_each` as above.
  template <typename ForEach>
  void reset_peaks(ForEach for_each) noexcept {
    peaks_ = {};
    peaks_with_parts_ = {};
    begin_anew(for_each);
    fold(for_each);
  }

  /// What counts beside the shards: parts that callers make of blocks, less the blocks that they divide. Each
  /// figure is modulo 2^64, for it may be below zero. So may the sum with all shards be, while a block is
  /// free already and still counts as divided.
  struct Parts {
    Amounts total;
    Amounts live;
    Amounts pending;
  };
  const Parts& parts(SizeGroup group) const noexcept {
    return parts_by_group_[static_cast<size_t>(index_of(group))];
  }
  /// Adds a change. What shards have reached so far was before it: folds on both sides of it. `for_each` as
  /// above.
  template <typename ForEach>
  void add_parts(ForEach for_each, SizeGroup group, const Parts& change) noexcept {
    fold(for_each);
    begin_anew(for_each);
    const auto which = static_cast<size_t>(index_of(group));
    parts_by_group_[which].total += change.total;
    parts_by_group_[which].live += change.live;
    parts_by_group_[which].pending += change.pending;
    for (const size_t at : {which, size_t{kGroups}}) {
      parts_[at].live += change.live;
      parts_[at].active += change.live + change.pending;
    }
    fold(for_each);
  }

  const Peaks& peak(SizeGroup group) const noexcept { return peaks_[static_cast<size_t>(index_of(group))]; }
  const Peaks& peak_all() const noexcept { return peaks_[kGroups]; }
  /// The same, as statistics show them.
  const Peaks& peak_with_parts(SizeGroup group) const noexcept {
    return peaks_with_parts_[static_cast<size_t>(index_of(group))];
  }
  const Peaks& peak_all_with_parts() const noexcept { return peaks_with_parts_[kGroups]; }

 private:
  Peaks with_parts(Peaks sums, size_t at) const noexcept {
    sums.live += parts_[at].live;
    sums.active += parts_[at].active;
    sums.live.end_at_zero();
    sums.active.end_at_zero();
    return sums;
  }

  static Amounts distance(const Amounts& peak, const Amounts& now) noexcept {
    return {peak.requested - std::min(peak.requested, now.requested),
            peak.allocated - std::min(peak.allocated, now.allocated),
            peak.blocks - std::min(peak.blocks, now.blocks)};
  }

  /// Each shard's part of the distance to the nearer of two peaks: it can rise by that without a new one.
  static Amounts part(const Amounts& one, const Amounts& other, uint64_t shards) noexcept {
    return {std::min(one.requested, other.requested) / shards,
            std::min(one.allocated, other.allocated) / shards, std::min(one.blocks, other.blocks) / shards};
  }

  /// Has every shard forget what it reached, and was allowed to reach.
  template <typename ForEach>
  static void begin_anew(ForEach for_each) noexcept {
    for_each([](CounterShard& shard) {
      for (size_t at = 0; at < CounterShard::kSums; ++at)
        shard.reached_[at] = {shard.live_of(at), shard.live_of(at) + shard.pending_of(at)};
    });
  }

  template <typename ForEach>
  void restart(ForEach for_each, const std::array<Peaks, CounterShard::kSums>& now,
               uint64_t shards) noexcept {
    constexpr Amounts kLeast = CounterShard::kLeast;
    for_each([&](CounterShard& shard) {
      for (size_t at = 0; at < now.size(); ++at) {
        const Amounts live = shard.live_of(at);
        const Amounts active = live + shard.pending_of(at);
        CounterShard::Level& reached = shard.reached_[at];
        const Peaks& other = peaks_with_parts_[at];
        const Peaks shown = with_parts(now[at], at);
        reached.live =
            live + part(distance(peaks_[at].live, now[at].live), distance(other.live, shown.live), shards);
        reached.active = active + part(distance(peaks_[at].active, now[at].active),
                                       distance(other.active, shown.active), shards);
        shard.allowed_[at] = {live + kLeast, active + kLeast};
        shard.allowed_[at].live.raise_to(reached.live);
        shard.allowed_[at].active.raise_to(reached.active);
      }
      shard.set_watch();
    });
  }

  std::array<Peaks, CounterShard::kSums> peaks_{};             // of the pool's own blocks, which decide
  std::array<Peaks, CounterShard::kSums> peaks_with_parts_{};  // which are shown
  std::array<Parts, kGroups> parts_by_group_{};
  std::array<Peaks, CounterShard::kSums> parts_{};  // the same, as peaks need it
};

}  // namespace gpupool::internal
