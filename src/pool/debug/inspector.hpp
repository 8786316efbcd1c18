// SPDX-License-Identifier: Apache-2.0
// Has the device fill memory, and see whether it still holds that, in the order of a stream, and tells what
// it found instead.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "pool/debug/block_history.hpp"

namespace gpupool::internal {

class MeteredDevice;
class Streams;
struct StreamState;

/// The words of poison. As a floating-point number of 16, 32 or 64 bits, poison is NaN. As 32-bit integers
/// the words are 2,147,450,879 and -65,538, so that an index leaves the buffer.
inline constexpr uint32_t kNewPoison = 0x7fff7fff;
inline constexpr uint32_t kFreePoison = 0xfffefffe;
/// The word of a block's canary, four equal bytes. Differs from block to block, and from what programs mostly
/// write.
constexpr uint32_t canary_of(uint64_t number) noexcept {
  return static_cast<uint32_t>(0xa1 + 2 * (number % 45)) * 0x01010101U;
}

/// Bytes that were written where nobody may write.
struct Finding {
  BlockRecord block;
  bool after_free = false;  // else: beyond the end
  uint64_t first = 0;       // as an offset in the block
  uint64_t last = 0;
  uint64_t count = 0;
  std::array<uint8_t, 8> bytes{};  // from the first on
  size_t shown = 0;
};

/// Looks at one stream's blocks, to be queued together: what costs is to queue anything.
class Looks {
 public:
  bool empty() const noexcept { return count_ == 0; }
  /// Whether there may be no room for another block.
  bool is_full() const noexcept { return count_ + kMostOfBlock > looks_.size(); }
  std::span<const Look> all() const noexcept { return std::span(looks_).first(count_); }

  /// At what is behind a block, or at the beginning and the end of a freed one.
  void add_behind(const BlockRecord& life) noexcept;
  void add_inside(const BlockRecord& life) noexcept;

 private:
  static constexpr size_t kMostOfBlock = 3;

  std::array<Look, kLooksAtOnce> looks_;
  size_t count_ = 0;
};

/// Guarded by the pool's lock.
class Inspector : NoCopy {
 public:
  Inspector(MeteredDevice& device, const Streams& streams) : device_(device), streams_(streams) {}

  /// Allocate and free page-locked memory. Call end() once no look is under way. Both may wait for the GPU.
  Status begin();
  void end() noexcept;

  // Fills are left out where the device refuses them; whether the stream may be used, the caller asks.

  /// Fills what is behind a block. Returns whether it did.
  bool put_canary(const BlockRecord& life, const StreamState& state) noexcept;
  /// Fills a block with a word of poison.
  void poison(BlockRecord& life, const StreamState& state, uint32_t word) noexcept;

  /// Queues looks on the stream, or leaves them out.
  void queue(const Looks& looks, StreamState& state) noexcept;
  /// Counts what had to be left out, looks or fills.
  void skip(uint64_t count) noexcept { skipped_ += count; }
  uint64_t skipped() const noexcept { return skipped_; }
  /// Whether the stream's user may queue work of the pool's on it now: not into a graph, and not on a stream
  /// that may be gone.
  static bool may_queue_as_user(StreamState& state) noexcept;
  /// Whether any call may: not while a capture may begin there.
  bool may_queue(StreamState& state) const noexcept;

  /// Adds what the device has found since the last call, but the damage behind one block only once. If it
  /// throws std::bad_alloc, nothing is lost.
  void collect(BlockHistory& book, std::vector<Finding>& found);

  /// Damages that had no place in the report: they are only counted.
  uint64_t untold() const noexcept;

 private:
  MeteredDevice& device_;
  const Streams& streams_;
  DamageReport* report_ = nullptr;
  size_t collected_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace gpupool::internal
