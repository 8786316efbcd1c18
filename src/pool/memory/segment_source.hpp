// SPDX-License-Identifier: Apache-2.0
// Memory that the driver's own malloc, or the user's, hands out in segments. Segments cannot be moved, so
// they are allocated in the standard chunk sizes and released whole. Both that malloc and its free may wait
// for the GPU or call the user, so the lock is given up around them.
#pragma once

#include "pool/memory/source.hpp"

namespace gpupool::internal {

class SegmentSource final : public Source {
 public:
  explicit SegmentSource(PoolState& pool) : pool_(pool) {}

  Status grow(Lock& lock, const Request& request, bool capturing) override;
  Status find_room(StreamHeap&, uint64_t, Address&) override {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "memory of this pool comes with addresses of its own");
  }
  Status reserve(Lock& lock, StreamState& state, uint64_t target) override;
  Status release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) override;
  void release_surplus(Lock&, uint64_t) noexcept override {}  // the driver's free may wait for the GPU
  void settle() noexcept override {}
  void lower() noexcept override {}
  void end(Lock& lock) override;
  /// A run may be larger than in a ChunkSource: chunks can be put together instead, and segments cannot.
  uint64_t largest_run(uint64_t need) const noexcept override { return 2 * need; }

 private:
  uint64_t most_reserved() noexcept;
  uint64_t target_for(Status status, uint64_t bytes) const noexcept;
  Status add_segment(Lock& lock, StreamState& state, SizeGroup group, uint64_t size);
  Status check_segment(const Chunk& chunk, bool& overlaps) const;
  Status free_idle(Lock& lock, uint64_t target, Retention::Cause cause);
  Chunk* find_idle(Retention::Cause cause, std::optional<Departure>& departure) const;
  Status free_segment(Lock& lock, Chunk* chunk, const Departure& departure);

  PoolState& pool_;
};

}  // namespace gpupool::internal
