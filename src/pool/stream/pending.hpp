// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use, and freed blocks that still wait for streams.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/no_copy.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// A stream that uses a block besides the block's own. Once the block is freed, `epoch` says until when.
struct alignas(16) BlockUse {
  BlockUse* next = nullptr;
  StreamState* state = nullptr;  // null: any stream that the pool has seen
  uint64_t epoch = 0;
  Range* block = nullptr;      // set in a block's first use, which is in the queue of its state
  BlockUse* behind = nullptr;  // next in that queue
};

/// A freed block waits for its users one after another, in a queue of each. Only the front of a queue is
/// looked at, since a stream passes its epochs in order. A block whose users nobody knows waits in a batch,
/// for which all streams are asked in turn. So a free, and each look for what has passed, takes a bounded
/// number of steps, however many blocks and streams there are. Guarded by the pool's lock.
class Pending : NoCopy {
 public:
  explicit Pending(const Streams& streams) : streams_(streams) {}

  /// Makes one call of add_use() safe. Throws std::bad_alloc.
  void prepare();

  /// Takes note that a stream uses a live block too; null: that any stream may.
  void add_use(Range& block, StreamState* state) noexcept;
  /// All that use a block have passed what they had queued.
  void remove_uses(Range& block) noexcept;

  /// Makes a freed block wait for the work that its users have queued so far. False, with nothing to wait
  /// for, if only its own stream uses it.
  bool add(Range& block) noexcept;

  /// Looks for blocks that every user has passed, and calls settle(block) for some of them, which may then be
  /// handed out. Asks the driver about a few streams; with `all`, about every stream until it finds some.
  /// Returns how many steps it took: with `all`, 0 means that no block is left that every user has passed.
  template <typename Settle>
  size_t settle(bool all, Settle settle);

  // A wait for all work, without the lock, is a wait for the blocks whose users nobody knows, also for those
  // of earlier waits that have not ended. So no thread depends on another one's.

  /// Begins such a wait. 0: there are no such blocks.
  uint64_t begin_wait() noexcept;
  /// Ends it. If it has waited, all blocks that were there at its begin have passed.
  void end_wait(uint64_t wait, bool have_passed) noexcept;
  /// How much is in such blocks.
  uint64_t unattributed_bytes() const noexcept { return asking_.bytes + collecting_bytes_; }

  bool empty() const noexcept {
    return !is_waited_for() && waited_.empty() && asking_.first == nullptr && collecting_ == nullptr &&
           passed_ == nullptr;
  }
  bool is_valid() const noexcept;

 private:
  using WaitedList = List<StreamState, &StreamState::waited_prev, &StreamState::waited_next>;
  static constexpr size_t kStreamsAtATime = 8;
  static constexpr size_t kBlocksAtATime = 256;

  /// Blocks, without uses, about which all states from `at` on must still be asked.
  struct UnknownBatch {
    Range* first = nullptr;  // through Range::link
    size_t at = 0;
    uint64_t bytes = 0;
  };

  /// Blocks, without uses, that a wait is for.
  struct Wait {
    uint64_t number = 0;
    Range* first = nullptr;  // through Range::link; null: the place is free
  };

  bool is_waited_for() const noexcept {
    return std::any_of(waits_.begin(), waits_.end(), [](const Wait& wait) { return wait.first != nullptr; });
  }
  void enqueue(Range& block) noexcept;
  void remove_use(Range& block) noexcept;
  size_t settle_queues(bool all) noexcept;
  void settle_front(StreamState& state, size_t& most) noexcept;
  void begin_batch() noexcept;
  size_t ask_streams(bool all) noexcept;
  void pass(Range& block) noexcept;
  static void push(Range*& list, Range& block) noexcept;

  const Streams& streams_;
  WaitedList waited_;  // states with blocks in their queues
  UnknownBatch asking_;
  Range* collecting_ = nullptr;  // the next batch
  uint64_t collecting_bytes_ = 0;
  Range* passed_ = nullptr;      // to be settled
  std::array<Wait, 8> waits_{};  // with more at a time, what comes last is for a later one
  uint64_t wait_count_ = 0;
  std::vector<std::unique_ptr<BlockUse[]>> slabs_;
  BlockUse* spare_ = nullptr;
};

template <typename Settle>
size_t Pending::settle(bool all, Settle settle) {
  if (empty()) return 0;
  size_t steps = settle_queues(all);
  steps += ask_streams(all);
  for (size_t settled = 0; passed_ != nullptr && settled < kBlocksAtATime; ++settled, ++steps) {
    Range* block = passed_;
    passed_ = block->link;
    settle(*block);
  }
  return steps;
}

}  // namespace gpupool::internal
