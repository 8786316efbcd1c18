// SPDX-License-Identifier: Apache-2.0
// Walks through what one pool did, with its live blocks and its chunks by address at each moment.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cli/recording/live.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

struct MappedChunk {
  uint64_t bytes;
  uint64_t stream;
  uint64_t live_bytes = 0;
  uint64_t users = 0;  // live blocks that touch it
};

/// Events that match nothing result from lost ones, and are ignored.
class PoolWalk {
 public:
  using Blocks = std::map<uint64_t, LiveBlock>;    // by address
  using Chunks = std::map<uint64_t, MappedChunk>;  // by address
  using Range = std::pair<uint64_t, uint64_t>;     // [begin, end)

  explicit PoolWalk(uint64_t pool) : pool_(pool) {}

  /// Calls on_malloc(block), and on_free(block) for the block that ends, if any.
  template <typename OnMalloc, typename OnFree>
  void take(const Happened& event, OnMalloc on_malloc, OnFree on_free) {
    if (event.pool != pool_) return;
    if (event.kind == Kind::map) map(event);
    if (event.kind == Kind::unmap) unmap(event);
    const bool begins = event.kind == Kind::malloc || event.kind == Kind::have;
    if (!begins && event.kind != Kind::free) return;
    if (const auto found = blocks_.find(event.address); found != blocks_.end()) {
      const LiveBlock ended = found->second;
      blocks_.erase(found);
      live_bytes_ -= rounded(ended.made->bytes);
      touch(*ended.made, false);
      on_free(ended);
    }
    if (!begins) return;
    const LiveBlock block{&event, ++count_};
    blocks_.emplace(event.address, block);
    live_bytes_ += rounded(event.bytes);
    touch(event, true);
    on_malloc(block);
  }
  void take(const Happened& event) {
    take(
        event, [](const LiveBlock&) {}, [](const LiveBlock&) {});
  }

  const Blocks& blocks() const noexcept { return blocks_; }
  const Chunks& chunks() const noexcept { return chunks_; }
  uint64_t live_bytes() const noexcept { return live_bytes_; }
  uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  /// Bytes of chunks that no live block touches.
  uint64_t idle_bytes() const noexcept { return idle_bytes_; }
  /// Mallocs so far.
  uint64_t count() const noexcept { return count_; }

  /// The longest run of backed addresses with no live block, of one stream.
  uint64_t largest_free() const;

 private:
  void map(const Happened& event);
  void unmap(const Happened& event);
  void add_chunk(uint64_t address, uint64_t bytes, uint64_t stream);
  void touch(const Happened& made, bool begins);
  /// The first chunk that ends behind `begin`.
  Chunks::iterator first_chunk(uint64_t begin);

  uint64_t pool_;
  Blocks blocks_;
  Chunks chunks_;
  uint64_t live_bytes_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t idle_bytes_ = 0;
  uint64_t count_ = 0;
  // The last unmapping: if the next mapping is of the same range, its chunks are another stream's now.
  Range unmapped_{};
  std::vector<std::pair<uint64_t, uint64_t>> unmapped_chunks_;  // address, bytes
};

/// How many events had happened when most was live in a pool; all of them if nothing ever was.
size_t events_until_peak(const Recording& recording, uint64_t pool);

}  // namespace gpupool::cli
