// SPDX-License-Identifier: Apache-2.0
// Steals free memory of another stream where it is mapped. Its driver calls only ask whether the GPU is done
// with that memory, or make the new stream wait for it. Otherwise, streams that take turns with buffers of
// similar sizes would pay for moving the same chunks back and forth, and segments could not change hands at
// all.
#pragma once

#include "pool/memory/source.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock.
class RunStealer {
 public:
  explicit RunStealer(PoolState& pool) noexcept : pool_(pool) {}

  /// Moves free chunks that lie side by side to the stream's heap, which then has a hole for the request.
  /// First those of one other stream that fit best: they are idle, or waiting for them will hardly hold the
  /// stream up (StreamOrder::can_follow). Then idle ones of any streams, and the stream's own among them.
  /// False if there is no run of at most `most` bytes: a larger one would take what others then lack. Once
  /// streams have moved too much, they take runs of any size. Looks at a few streams; with `all`, at every
  /// stream. Throws std::bad_alloc.
  bool steal(const Request& request, uint64_t most, bool all);

 private:
  /// What is looked for.
  struct Search {
    const Request& request;
    uint64_t most;
    bool all;
    bool apart;
  };
  template <typename Visit>
  void for_some_heaps(const Search& search, Visit visit);
  StreamHeap* find_of_one(const Search& search, Window& run, uint64_t& last_use);
  bool find_side_by_side(const Search& search, Window& run);
  void take(const Request& request, const Window& run, uint64_t epoch);

  PoolState& pool_;
  size_t next_ = 0;  // the stream to look at next
};

}  // namespace gpupool::internal
