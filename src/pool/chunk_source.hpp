// SPDX-License-Identifier: Apache-2.0
// A source of chunks that can be moved, by virtual memory management.
#pragma once

#include "pool/addresses.hpp"
#include "pool/backing.hpp"
#include "pool/source.hpp"

namespace gpupool::internal {

class ChunkSource final : public Source {
 public:
  ChunkSource(const Rooms& rooms, Backing& backing)
      : rooms_(rooms), backing_(backing), addresses_(rooms.device) {}

  Status grow(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool capturing) override;
  Status reserve(Lock& lock, StreamState& state, uint64_t target) override;
  Status release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) override {
    return release(&lock, target, is_asked_for, blocked);
  }
  void release_surplus(Lock& lock, uint64_t kept) noexcept override;
  void settle() noexcept override;
  void lower() noexcept override;
  void end(Lock& lock) override;
  uint64_t largest_run(uint64_t need) const noexcept override { return need + need / policy::kStealRunParts; }

  // For Growth.

  const Rooms& rooms() const noexcept { return rooms_; }
  Backing& backing() noexcept { return backing_; }
  Addresses& addresses() noexcept { return addresses_; }
  /// With a null lock, it does not give way to other threads.
  Status release(Lock* lock, uint64_t target, bool is_asked_for, bool& blocked);

 private:
  Status back_with_new(StreamHeap& heap, Region* region, const Gap& gap, uint64_t size);
  bool lower_chunk(const std::vector<Piece>& piece);

  const Rooms& rooms_;
  Backing& backing_;
  Addresses addresses_;
};

}  // namespace gpupool::internal
