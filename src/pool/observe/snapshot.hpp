// SPDX-License-Identifier: Apache-2.0
// A list of a pool's chunks and blocks, taken in steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/space.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

class Streams;

/// What was seen step by step, by address. What was there all the time was seen once. If an entry overlaps
/// one that was seen earlier, the earlier one is gone. Entries without an address overlap nothing.
template <typename Entry>
class SeenEntries {
 public:
  /// Adding one never moves the others: there may be millions, and the pool is locked.
  void add(const Entry& entry) { seen_.push_back(entry); }

  template <typename Size>
  std::vector<Entry> by_address(Size size) const {
    std::vector<size_t> order(seen_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [this](size_t a, size_t b) { return seen_[a].address < seen_[b].address; });
    // Those kept so far do not overlap, so only the last of them can overlap the next.
    size_t kept = 0;
    for (const size_t next : order) {
      bool is_late = true;  // later than what it overlaps
      while (kept != 0 && is_late && end(order[kept - 1], size) > seen_[next].address) {
        is_late = order[kept - 1] < next;
        if (is_late) --kept;
      }
      if (is_late) order[kept++] = next;
    }
    std::vector<Entry> entries;
    entries.reserve(kept);
    for (size_t i = 0; i < kept; ++i) entries.push_back(seen_[order[i]]);
    return entries;
  }

 private:
  template <typename Size>
  uint64_t end(size_t at, Size size) const {
    return seen_[at].address == 0 ? 0 : seen_[at].address + seen_[at].*size;
  }

  std::deque<Entry> seen_;
};

/// Goes through all records, a bounded number in each step, under the pool's lock. Another thread may have
/// the lock between two steps. Records never go away, so none is missed.
class Snapshot {
 public:
  /// Throws std::bad_alloc.
  Snapshot(const Space& space, const Streams& streams, int32_t device)
      : space_(space), streams_(streams), device_(device) {}

  /// Takes the next step; false if it was the last one. Throws std::bad_alloc.
  bool step();

  // Afterwards, without the lock.

  std::vector<gpupool_segment_t> segments() const {
    return segments_.by_address(&gpupool_segment_t::size_bytes);
  }
  std::vector<gpupool_block_t> blocks() const {
    return blocks_.by_address(&gpupool_block_t::allocated_bytes);
  }

 private:
  void see(const Chunk& chunk);
  void see(const Range& range);

  const Space& space_;
  const Streams& streams_;
  const int32_t device_;
  size_t next_chunk_ = 0;
  size_t next_range_ = 0;
  bool any_asleep_ = false;  // any of the chunks, which come first
  SeenEntries<gpupool_segment_t> segments_;
  SeenEntries<gpupool_block_t> blocks_;
};

}  // namespace gpupool::internal
