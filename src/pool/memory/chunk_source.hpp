// SPDX-License-Identifier: Apache-2.0
// A source of chunks that can be moved, by virtual memory management.
#pragma once

#include "pool/memory/addresses.hpp"
#include "pool/memory/source.hpp"

namespace gpupool::internal {

class ChunkSource final : public Source {
 public:
  explicit ChunkSource(PoolState& pool) : pool_(pool), addresses_(pool.device, pool.shortages.no_addresses) {}

  Status grow(Lock& lock, const Request& request, bool capturing) override;
  Status find_room(StreamHeap& heap, uint64_t bytes, Address& address) override {
    return addresses_.find_room(heap, bytes, address);
  }
  Status reserve(Lock& lock, StreamState& state, uint64_t target) override;
  Status release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) override;
  void release_surplus(Lock& lock, uint64_t kept) noexcept override;
  void settle() noexcept override;
  void lower() noexcept override;
  void end(Lock& lock) override;
  /// As large as the chunk that a growth would move there instead.
  uint64_t largest_run(uint64_t need) const noexcept override {
    const uint64_t chunk = 2 * floor_power_of_two(std::max(need, kGranule) - 1);
    return std::max(need + need / policy::kStealRunParts, std::min(chunk, policy::kMaxChunk));
  }

 private:
  Status back_with_new(StreamHeap& heap, Region* region, const Gap& gap, uint64_t size);
  void lower_chunk(const std::vector<Piece>& piece);

  PoolState& pool_;
  Addresses addresses_;
};

}  // namespace gpupool::internal
