// SPDX-License-Identifier: Apache-2.0
// Who holds a pool's memory, from samples: a share of the live blocks, with stack, tag and age.
//
// Live bytes are a height, and marks lie along it at random distances, S bytes apart on average. A malloc
// whose block covers a mark is sampled; when the block is freed, its marks are put back where the live bytes
// have fallen by its size. A program does not know which blocks are samples, so at any moment a live block is
// one with probability 1 - exp(-size / S), and stands for size / (1 - exp(-size / S)) bytes of its kind. Of
// the marks above a cache's live bytes only the next one is checked, and mallocs below it cost nothing: the
// counters compare with a level anyway, for peaks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/no_copy.hpp"
#include "base/spin_lock.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {

struct Sample {
  uint64_t address;
  uint64_t bytes;
  uint64_t weight;  // bytes that it stands for
  uint64_t mean;    // how far apart the marks lie, one of which it covers
  uint64_t stream;
  uint64_t born_ns;
  StackId stack;
  TagId tag;
  uint8_t thinned;  // of the marks
  Sample* next;     // in its bucket, among the spare ones, or in Marks::regions
  Sample* made_before;
};

/// The marks above the live bytes of one cache, whose lock guards them. The height above is divided into
/// regions, each with a mark in it; marks behind the first one of a region are drawn when they are reached.
struct Marks {
  uint64_t next = UINT64_MAX;
  uint64_t high = UINT64_MAX;  // where the region of `next` ends
  Sample* regions = nullptr;   // those above: `weight` is the first mark, `bytes` the end
  uint64_t mean = 1;           // how far apart its marks lie
  uint8_t thinned = 0;         // by what power of two, to save time
  uint64_t drawn_for = 0;      // the distance that was set, plus 1
};

/// Whether samples become rarer if they would cost much time. A requested density is kept.
enum class Sparing : bool { nothing, time };

/// The minimum mean distance of marks for all pools; 0: no samples. Initially read from GPUPOOL_SAMPLE.
uint64_t sample_distance() noexcept;
void set_sample_distance(uint64_t bytes, Sparing sparing = Sparing::nothing) noexcept;
/// Reads GPUPOOL_SAMPLE, a size or 0, unless that was done already.
Status read_sample_distance();

/// The samples of one pool.
class Sampler : NoCopy {
 public:
  static constexpr uint64_t kLeastDistance = uint64_t{1} << 20;
  static constexpr uint64_t kMostDistance = uint64_t{64} << 20;
  static constexpr uint64_t kSamples = 1024;  // how many there should be

  Sampler() = default;
  ~Sampler();

  /// Draws marks above `live` bytes, unless that was already done for the current distance and thinning.
  void draw(Marks& marks, uint64_t live) noexcept;
  /// A malloc has brought the live bytes above the next mark.
  void pass_mark(Marks& marks, uint64_t live) noexcept;
  /// A free of a sampled block will bring the live bytes down to `left`.
  void return_mark(Marks& marks, uint64_t address, uint64_t left, uint64_t bytes) noexcept;

  /// What a sampled block of this size stands for, if marks lie `mean` bytes apart.
  static uint64_t weight_of(uint64_t bytes, uint64_t mean) noexcept;

  /// Whether the marks were drawn for the current settings.
  bool is_drawn(const Marks& marks) const noexcept {
    return marks.drawn_for == sample_distance() + 1 &&
           marks.thinned == thinned_.load(std::memory_order_relaxed);
  }

  /// Records a block; skips it if there is no memory. Takes the time spent on the sample, so that samples
  /// become rarer if they would cost the program more than a two-hundredth of its time, unless it asked for a
  /// density.
  void add(const Sample& sample, uint64_t cost_ns) noexcept;
  /// Called at every miss, under the pool's lock: thinned marks move closer again once there was time enough.
  void relax() noexcept {
    if (thinned_.load(std::memory_order_relaxed) != 0) relax_by_time();
  }
  /// Copies of all samples. Throws std::bad_alloc.
  std::vector<Sample> all() const;

  /// Calls visit(sample) for each, under the samples' lock.
  template <typename Visit>
  void for_each(Visit visit) const noexcept {
    const SpinGuard guard(lock_);
    for (const Sample* bucket : buckets_) {
      for (const Sample* sample = bucket; sample != nullptr; sample = sample->next) visit(*sample);
    }
  }

  // Around fork.
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

 private:
  static constexpr unsigned kBucketBits = 11;

  uint64_t distance(uint64_t live) const noexcept;
  double random() noexcept;
  uint64_t next_above(uint64_t live, uint64_t mean) noexcept;
  Sample* remove(uint64_t address) noexcept;
  void drop(Sample* sample) noexcept;
  void weigh_cost(uint64_t now_ns, uint64_t cost_ns) noexcept;
  void relax_by_time() noexcept;

  mutable SpinLock lock_;
  std::array<Sample*, size_t{1} << kBucketBits> buckets_{};
  Sample* spare_ = nullptr;
  Sample* made_ = nullptr;  // all, through made_before
  size_t count_ = 0;
  int64_t credit_ns_ = 0;  // that samples may cost from now on
  uint64_t weighed_ns_ = 0;
  std::atomic<uint8_t> thinned_{0};  // marks lie 2 to this power times as far apart
  uint32_t relaxes_ = 0;
  std::atomic<uint64_t> drawn_{0};
};

}  // namespace gpupool::internal
