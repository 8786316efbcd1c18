// SPDX-License-Identifier: Apache-2.0
// What one thread keeps of one pool: free blocks by stream and size, and its share of the counters.
#pragma once

#include <array>

#include "base/spin_lock.hpp"
#include "core/counters.hpp"
#include "core/quick_bins.hpp"
#include "watch/sampler.hpp"

namespace gpupool::internal {

struct BlockOwner {};

/// An empty lane.
inline constexpr Stream kNoStream = GPUPOOL_STREAM_UNKNOWN;

/// What the heaps of a released stream, or of a capture, are called: no caller's stream is.
inline constexpr Stream kNameless = GPUPOOL_STREAM_UNKNOWN - 1;

/// Quick bins of one stream.
struct Lane {
  Stream stream = kNoStream;
  std::array<QuickBins, kGroups> groups;

  QuickBins& bins(Group group) noexcept { return groups[static_cast<size_t>(index_of(group))]; }

  /// Takes everything, as one list through Range::link.
  Range* drain() noexcept { return bins(Group::small).drain(bins(Group::large).drain()); }
};

/// A thread takes the lock of its own cache once a call, uncontended but for frees of its blocks by other
/// threads and for the pool draining it. Lock order: the pool's lock, then this. Caches live as long as the
/// pool; when a thread ends, its cache waits for the next new thread.
struct alignas(128) ThreadCache : BlockOwner {
  static constexpr unsigned kLaneBits = 3;

  SpinLock lock;
  bool touched = false;                // since the pool last looked: its thread is at work
  uint32_t watch_epoch = 0;            // for which its counters were told what to look out for
  Marks marks;                         // of the samples among its blocks
  ThreadCache* next_unused = nullptr;  // while no thread has it
  CounterShard counters;
  std::array<Lane, size_t{1} << kLaneBits> lanes;

  /// The only lane that may hold this stream. Streams are pointers or small numbers.
  Lane& lane_of(Stream stream) noexcept { return lanes[hash_to(kLaneBits, stream)]; }
};

}  // namespace gpupool::internal
