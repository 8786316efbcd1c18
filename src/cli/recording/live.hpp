// SPDX-License-Identifier: Apache-2.0
// Walks through a recording, with the blocks that are live at each moment.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

struct LiveBlock {
  const Happened* made;
  uint64_t number;  // counted from 1 over the recording
};

/// Blocks by pool and address. A free that matches no block, or a malloc on top of one, results from lost
/// events; the free is ignored, and the malloc ends the existing block.
class LiveBlocks {
 public:
  using Key = std::pair<uint64_t, uint64_t>;

  /// Calls on_malloc(block), and on_free(block, event) for the block that ends, if any.
  template <typename OnMalloc, typename OnFree>
  void take(const Happened& event, OnMalloc on_malloc, OnFree on_free) {
    const bool begins = event.kind == Kind::malloc || event.kind == Kind::have;
    if (!begins && event.kind != Kind::free) return;
    const auto found = blocks_.find({event.pool, event.address});
    if (found != blocks_.end()) {
      const LiveBlock ended = found->second;
      blocks_.erase(found);
      on_free(ended, event);
    } else if (!begins) {
      ++unmatched_;
    }
    if (!begins) return;
    const LiveBlock block{&event, ++count_};
    blocks_.emplace(Key{event.pool, event.address}, block);
    on_malloc(block);
  }

  void take(const Happened& event) {
    take(
        event, [](const LiveBlock&) {}, [](const LiveBlock&, const Happened&) {});
  }

  /// The block that the event is about; nullptr: none is live there.
  const LiveBlock* find(const Happened& event) const {
    const auto found = blocks_.find({event.pool, event.address});
    return found != blocks_.end() ? &found->second : nullptr;
  }
  const auto& all() const noexcept { return blocks_; }
  /// Frees that matched no block.
  uint64_t unmatched() const noexcept { return unmatched_; }

 private:
  struct Hash {
    size_t operator()(const Key& key) const noexcept {
      return static_cast<size_t>((key.second + key.first) * 0x9e3779b97f4a7c15 >> 16);
    }
  };
  std::unordered_map<Key, LiveBlock, Hash> blocks_;
  uint64_t count_ = 0;
  uint64_t unmatched_ = 0;
};

/// The size of a block with this many requested bytes.
constexpr uint64_t rounded(uint64_t bytes) noexcept {
  return (bytes + 511) / 512 * 512;
}

}  // namespace gpupool::cli
