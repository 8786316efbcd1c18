// SPDX-License-Identifier: Apache-2.0
// Who holds a pool's memory, from samples: a share of the live blocks, with stack, tag and age.
//
// Live bytes are a height, and marks lie along it at random distances, S bytes apart on average. A malloc
// whose block covers a mark is sampled; when the block is freed, its marks are put back where the live bytes
// have fallen by its size. A program does not know which blocks are samples, so at any moment a live block is
// one with probability 1 - exp(-size / S), and stands for size / (1 - exp(-size / S)) bytes of its kind. Of
// the marks above a cache's live bytes only the next one is checked, and mallocs below it cost nothing: the
// counters compare with a level anyway, for peaks.
//
// Where samples have cost more than they may, a mark that a malloc reaches either goes, or stands for so many
// more bytes. So what is reached again and again soon costs nothing, and estimates stay right on average.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/no_copy.hpp"
#include "base/spin_lock.hpp"
#include "watch/sample_budget.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {

/// The first mark in a block.
struct FirstMark {
  uint64_t offset = 0;  // from the block's begin
  uint64_t mean = 0;    // how far apart marks lie there
  uint64_t weight = 0;  // bytes that the block stands for; 0: there is no mark
  double variance = 0;  // that it adds to an estimate's
};

struct Sample {
  uint64_t address;
  uint64_t bytes;
  FirstMark mark;
  uint64_t stream;
  uint64_t born_ns;
  StackId stack;
  TagId tag;
  Sample* next;  // in its bucket, among the spare ones, or in Marks::regions
  Sample* made_before;
};

/// The marks above the live bytes of one cache, whose lock guards them. The height above is divided into
/// regions, each with a mark in it; marks behind the first one of a region are drawn when they are reached.
struct Marks {
  uint64_t next = UINT64_MAX;
  uint64_t high = UINT64_MAX;  // where the region of `next` ends
  uint64_t mean = 1;           // how far apart its marks lie
  Sample* regions = nullptr;   // those above: `mark.offset` is the first mark, `bytes` the end
  bool are_even = true;        // all were drawn for one distance, and none was thinned
  uint64_t drawn_for = 0;      // the distance that was set, plus 1
};

/// What samples may cost, unless a density was requested. For all pools.
SampleBudget& sample_budget() noexcept;

/// Whether samples become rarer if they would cost much time. A requested density is kept.
enum class Sparing : bool { nothing, time };

/// The minimum mean distance of marks for all pools; 0: no samples. Initially read from GPUPOOL_SAMPLE.
uint64_t sample_distance() noexcept;
void set_sample_distance(uint64_t bytes, Sparing sparing = Sparing::nothing) noexcept;
Sparing sparing_of_samples() noexcept;
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

  /// Draws marks above `live` bytes. Whether and when must not depend on what is sampled, or whether a mark
  /// was thinned: otherwise estimates would no longer be right.
  void draw(Marks& marks, uint64_t live) noexcept;
  /// Whether that was done for the current distance.
  static bool is_drawn(const Marks& marks) noexcept { return marks.drawn_for == sample_distance() + 1; }

  /// A malloc of so many bytes has brought the live bytes above the next mark. Returns the block's first one,
  /// if it keeps any where so much is owed (SampleBudget).
  FirstMark pass_mark(Marks& marks, uint64_t live, uint64_t bytes, uint64_t owed_ns) noexcept;
  /// A free of a sampled block will bring the live bytes down to `left`.
  void return_mark(Marks& marks, uint64_t address, uint64_t left, uint64_t bytes) noexcept;

  /// Records a block; skips it if there is no memory.
  void add(const Sample& sample) noexcept;
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

  double random() noexcept;
  uint64_t gap(uint64_t mean) noexcept;
  void thin(FirstMark& mark, uint64_t owed_ns) noexcept;
  Sample* remove(uint64_t address) noexcept;
  void drop(Sample* sample) noexcept;

  mutable SpinLock lock_;
  std::array<Sample*, size_t{1} << kBucketBits> buckets_{};
  Sample* spare_ = nullptr;
  Sample* made_ = nullptr;  // all, through made_before
  size_t count_ = 0;
  std::atomic<uint64_t> drawn_{0};
};

}  // namespace gpupool::internal
