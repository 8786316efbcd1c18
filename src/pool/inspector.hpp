// SPDX-License-Identifier: Apache-2.0
// Has the device see whether memory still holds what it was filled with, in the order of a stream, and tells
// what it found instead.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "pool/book.hpp"

namespace gpupool::internal {

class DeferredLooks;
class MeteredDevice;
class StreamOrder;

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

/// Guarded by the pool's lock.
class Inspector {
 public:
  explicit Inspector(MeteredDevice& device) : device_(device) {}
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  /// Allocate and free page-locked memory. Call end() once no look is under way. Both may wait for the GPU.
  Status begin();
  void end() noexcept;

  /// Look, by the next malloc on the stream at the latest, at what is behind a block, or at the beginning and
  /// the end of a freed one. False if the stream is released, captures for long, or the device refuses.
  bool look_behind(const BlockRecord& life, StreamOrder& order) noexcept;
  bool look_inside(const BlockRecord& life, StreamOrder& order) noexcept;
  /// Call it when a malloc has got memory of a stream that does not capture: queues the looks that wait, and
  /// behind them the fill of the block's canary, at most Look::kRoom bytes; 0: none. False: the device
  /// refuses.
  bool queue(const Fill& canary, StreamOrder& order) noexcept;

  /// The same if the stream captures: leaves out the looks that wait.
  static void drop_looks(StreamOrder& order) noexcept;

  /// Adds what the device has found since the last call, but the damage behind one block only once. If it
  /// throws std::bad_alloc, nothing is lost.
  void collect(AddressBook& book, std::vector<Finding>& found);

  /// Damages that had no place in the report: they are only counted.
  uint64_t untold() const noexcept;
  /// Looks that were put off and could not be queued.
  uint64_t skipped() const noexcept { return skipped_; }

 private:
  bool put_off(const Look& look, StreamOrder& order) noexcept;
  DeferredLooks* looks_of(StreamOrder& order) noexcept;

  MeteredDevice& device_;
  DamageReport* report_ = nullptr;
  size_t collected_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace gpupool::internal
