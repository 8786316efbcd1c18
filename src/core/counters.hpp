// SPDX-License-Identifier: Apache-2.0
// Statistics: cheap to count in each thread's cache, exact when summed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/size.hpp"

namespace gpupool {

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
  /// In any of the three.
  bool exceeds(const Amounts& other) const noexcept {
    return (requested > other.requested) | (allocated > other.allocated) | (blocks > other.blocks);
  }
  void raise_to(const Amounts& other) noexcept {
    requested = std::max(requested, other.requested);
    allocated = std::max(allocated, other.allocated);
    blocks = std::max(blocks, other.blocks);
  }
  friend Amounts operator+(Amounts a, const Amounts& b) noexcept { return a += b; }
  friend Amounts operator-(Amounts a, const Amounts& b) noexcept { return a -= b; }
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

/// Per group, and for all blocks.
using GroupAmounts = std::array<Amounts, kGroups>;

/// What one thread's cache has counted. Guarded by the cache's lock. A block counts where it was allocated,
/// whichever thread frees it, so that `live` is never negative.
class CounterShard {
 public:
  /// How far a shard's peak may run ahead of what it has published: the bound that gpupool_stat_t states.
  static constexpr uint64_t kPublishBytes = 16 * kMiB;
  static constexpr uint64_t kPublishBlocks = 4096;

  /// Counts a block. True where that may raise a peak: then call raise(). On the hot path: peaks are only
  /// written where they rise.
  bool count(Group group, uint64_t requested, uint64_t allocated) noexcept {
    const Amounts block{requested, allocated, 1};
    const auto at = static_cast<size_t>(index_of(group));
    total_[at] += block;
    live_[at] += block;
    const bool of_group = live_[at].exceeds(peak_[at]);
    const bool of_all = (live_[0] + live_[1]).exceeds(peak_all_);
    return of_group | of_all;  // one branch
  }

  /// True where the pool should publish this shard now.
  bool raise(Group group) noexcept {
    const auto at = static_cast<size_t>(index_of(group));
    peak_[at].raise_to(live_[at]);
    peak_all_.raise_to(live_[0] + live_[1]);
    return peak_all_.allocated > published_.allocated + kPublishBytes ||
           peak_all_.blocks > published_.blocks + kPublishBlocks;
  }

  /// Both.
  bool add(Group group, uint64_t requested, uint64_t allocated) noexcept {
    return count(group, requested, allocated) && raise(group);
  }

  void subtract(Group group, uint64_t requested, uint64_t allocated) noexcept {
    live_[static_cast<size_t>(index_of(group))] -= {requested, allocated, 1};
  }

  const GroupAmounts& total() const noexcept { return total_; }
  const GroupAmounts& live() const noexcept { return live_; }

  /// All mallocs, and those of them that the cache could not serve.
  uint64_t mallocs() const noexcept { return total_[0].blocks + total_[1].blocks; }
  uint64_t misses = 0;

 private:
  friend class Counters;

  GroupAmounts live_{};  // first, beside the cache's lock: all that a free by another thread changes
  GroupAmounts total_{};
  GroupAmounts peak_{};  // of live, since the last publishing
  Amounts peak_all_{};
  Amounts published_{};  // live of all, as of the last publishing
  GroupAmounts published_group_{};
};

/// The pool's side: what the shards have published, and peaks. Guarded by the pool's lock.
///
/// A peak is found as the published sum plus what each shard's own peak adds to it. With one shard that is
/// exact. With several, shards need not have peaked at the same moment: the error is at most what they had
/// not published, kPublishBytes a shard. For that, what others have freed since must be published before a
/// shard that would raise a peak.
class Counters {
 public:
  /// Whether publishing this shard would raise a peak. Call with the shard's lock held.
  bool would_raise(const CounterShard& shard) const noexcept {
    const auto raises = [](const Peaks& peaks, const Amounts& reached, const Amounts& pending) {
      return reached.exceeds(peaks.allocated) || (reached + pending).exceeds(peaks.active);
    };
    const Amounts all = published_all_ - shard.published_ + shard.peak_all_;
    if (raises(peak_all_, all, pending_[0] + pending_[1])) return true;
    for (size_t g = 0; g < kGroups; ++g) {
      const Amounts reached = published_[g] - shard.published_group_[g] + shard.peak_[g];
      if (raises(peaks_[g], reached, pending_[g])) return true;
    }
    return false;
  }

  /// Folds a shard's peaks into the pool's. Call with the shard's lock held.
  void publish(CounterShard& shard) noexcept {
    const Amounts live = shard.live_[0] + shard.live_[1];
    for (size_t g = 0; g < kGroups; ++g) {
      const Amounts base = published_[g] - shard.published_group_[g];
      raise(peaks_[g], base + shard.peak_[g], pending_[g]);
      published_[g] = base + shard.live_[g];
      shard.published_group_[g] = shard.peak_[g] = shard.live_[g];
    }
    const Amounts base = published_all_ - shard.published_;
    raise(peak_all_, base + shard.peak_all_, pending_[0] + pending_[1]);
    published_all_ = base + live;
    shard.published_ = shard.peak_all_ = live;
  }

  /// A block is freed but waits for streams (add), or no longer does. Publish every shard first: peaks of
  /// active bytes are found between such changes.
  void add_pending(Group group, uint64_t allocated) noexcept {
    pending_[static_cast<size_t>(index_of(group))] += {0, allocated, 1};
  }
  void remove_pending(Group group, uint64_t allocated) noexcept {
    pending_[static_cast<size_t>(index_of(group))] -= {0, allocated, 1};
  }

  /// Publish every shard first.
  void reset_peaks() noexcept {
    for (size_t g = 0; g < kGroups; ++g) peaks_[g] = {published_[g], published_[g] + pending_[g]};
    peak_all_ = {published_all_, published_all_ + pending_[0] + pending_[1]};
  }

  struct Peaks {
    Amounts allocated;
    Amounts active;  // allocated and blocks only
  };
  const Peaks& peak(Group group) const noexcept { return peaks_[static_cast<size_t>(index_of(group))]; }
  const Peaks& peak_all() const noexcept { return peak_all_; }
  const Amounts& pending(Group group) const noexcept {
    return pending_[static_cast<size_t>(index_of(group))];
  }

 private:
  static void raise(Peaks& peaks, const Amounts& reached, const Amounts& pending) noexcept {
    peaks.allocated.raise_to(reached);
    peaks.active.raise_to(reached + pending);
  }

  GroupAmounts published_{};
  Amounts published_all_{};
  GroupAmounts pending_{};
  std::array<Peaks, kGroups> peaks_{};
  Peaks peak_all_{};
};

}  // namespace gpupool
