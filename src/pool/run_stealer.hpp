// SPDX-License-Identifier: Apache-2.0
// Free memory of another stream, stolen where it is mapped: no driver call but the question whether the GPU
// is done with it. Streams that take turns with buffers of like sizes would otherwise pay for moving the same
// chunks back and forth, and segments could not change hands at all.
#pragma once

#include "pool/source.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock.
class RunStealer {
 public:
  explicit RunStealer(const Rooms& rooms) noexcept : rooms_(rooms) {}

  /// Moves the run of idle chunks that fits best to the stream's heap, which has a hole for the request then.
  /// False if there is none of at most `most` bytes: a larger one would hold what others then lack. Looks at
  /// a few streams, or at all of them if `all`. Throws std::bad_alloc.
  bool steal(StreamState& state, uint64_t bytes, uint64_t alignment, uint64_t most, bool all);

 private:
  const Rooms& rooms_;
  size_t next_ = 0;  // the stream whose memory is looked at next
};

}  // namespace gpupool::internal
