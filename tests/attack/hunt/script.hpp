// SPDX-License-Identifier: Apache-2.0
// The steps of a pattern, one after the other, whichever threads make them: no allocator and no clock has a
// say in it, so it is the same on any machine.
#pragma once

#include <cstdint>
#include <vector>

#include "attack/hunt/pattern.hpp"

namespace hunt {

enum class Kind : uint8_t { malloc, free, record_stream, work, begin_capture, end_capture, advance };

struct Step {
  Kind kind;
  uint8_t thread = 0;
  uint8_t pool = 0;
  uint16_t stream = 0;
  uint32_t slot = 0;   // where the block's address is kept
  uint64_t bytes = 0;  // of the block; nanoseconds of work and advance

  bool operator==(const Step&) const = default;
};

class Script {
 public:
  explicit Script(const Pattern& pattern);

  /// The steps of the next period. From the second on, they are the same but for sizes that are always new.
  std::vector<Step> next_period();
  /// Frees all that is live.
  std::vector<Step> last_frees();

  size_t slots() const { return blocks_.size(); }
  /// The captures' stream is the last.
  size_t streams() const { return static_cast<size_t>(pattern_.streams) + 1; }

 private:
  struct Block {
    uint64_t bytes = 0;  // 0: not live
    uint16_t stream = 0;
    uint8_t pool = 0;
  };
  struct Thread {
    Random random;
    std::vector<uint32_t> batch;  // slots that are live, from the oldest
    uint64_t batches = 0;
    uint64_t next = 0;  // where its next block goes, if blocks go one by one
  };

  void step(int64_t thread, int64_t number, int64_t phase);
  uint64_t size(Thread& self, int64_t thread, int64_t number, int64_t phase) const;
  uint16_t stream(Thread& self, int64_t thread, int64_t number) const;
  void malloc(int64_t thread, uint32_t slot, Block block);
  void free(int64_t thread, uint32_t slot);
  void make_room(int64_t thread, int64_t number);
  void capture();

  const Pattern pattern_;
  std::vector<uint64_t> sizes_;
  std::vector<Block> blocks_;
  std::vector<Thread> threads_;
  std::vector<Step> steps_;
  Random chances_;
  uint64_t period_ = 0;
};

/// The most that is live at a time in one of the pools, in the first periods. What a graph used is live until
/// another is captured.
uint64_t live_peak(const Pattern& pattern);

}  // namespace hunt
