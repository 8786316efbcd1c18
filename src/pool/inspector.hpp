// SPDX-License-Identifier: Apache-2.0
// Looks whether device memory still holds what it was filled with: copies it to the host, in stream order,
// and compares it once the stream has passed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "pool/book.hpp"

namespace gpupool::internal {

class MeteredDevice;
struct StreamState;

/// The words of poison. As a floating-point number of 16, 32 or 64 bits, poison is NaN. As 32-bit integers
/// the words are 2,147,450,879 and -65,538, so that an index leaves the buffer.
inline constexpr uint32_t kNewPoison = 0x7fff7fff;
inline constexpr uint32_t kFreePoison = 0xfffefffe;
/// The byte of a block's canary. Differs from block to block, and from what programs mostly write.
constexpr uint8_t canary_of(uint64_t number) noexcept {
  return static_cast<uint8_t>(0xa1 + 2 * (number % 45));
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
  /// The most bytes that one look compares.
  static constexpr uint64_t kRoom = 1024;

  explicit Inspector(MeteredDevice& device) : device_(device) {}
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  /// Allocate and free page-locked memory. Call end() once no look is under way. Both may wait for the GPU.
  Status begin();
  void end() noexcept;

  /// Queue a look at what is behind a block, or at the beginning and end of a freed one. False if there is no
  /// place or the device refuses.
  bool look_behind(const BlockRecord& life, StreamState& state) noexcept;
  bool look_inside(const BlockRecord& life, StreamState& state) noexcept;

  /// Compares what has arrived. If it throws std::bad_alloc, no look is lost.
  void compare(std::vector<Finding>& found);

  bool has_place() const noexcept { return used_ < kSlots; }
  bool is_idle() const noexcept { return looks_.empty(); }

 private:
  static constexpr size_t kSlots = 1024;

  /// One part of a block on its way to the host.
  struct Part {
    uint64_t offset;  // in the block
    uint64_t size;
  };
  struct Look {
    BlockRecord block;
    bool inside;
    std::array<Part, 2> parts;
    StreamState* state;
    uint64_t epoch;
    size_t slot;
  };

  bool queue(const BlockRecord& life, bool inside, std::array<Part, 2> parts, StreamState& state) noexcept;
  bool examine(const Look& look, Finding& finding) const noexcept;

  MeteredDevice& device_;
  Address memory_ = 0;
  size_t used_ = 0;
  size_t next_ = 0;
  std::deque<Look> looks_;  // in the order of their slots
};

}  // namespace gpupool::internal
