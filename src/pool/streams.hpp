// SPDX-License-Identifier: Apache-2.0
// The streams that a pool knows: their heaps and their order, from their first use to their end and beyond.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/heap.hpp"
#include "core/list.hpp"
#include "core/policy.hpp"
#include "pool/stream_order.hpp"
#include "pool/thread_cache.hpp"

namespace gpupool::internal {

struct StreamState;

/// A heap that knows its stream.
class StreamHeap final : public Heap {
 public:
  StreamHeap(SizeGroup group, Space& space, StreamState& state) : Heap(group, space), state_(state) {}

  StreamState& state() const noexcept { return state_; }

  /// The stream whose frees may go to quick bins; kNoLane once it is released or parked, or for a capture.
  Stream lane_stream() const noexcept { return lane_stream_.load(std::memory_order_relaxed); }
  void set_lane_stream(Stream stream) noexcept { lane_stream_.store(stream, std::memory_order_relaxed); }

  /// The most bytes that its blocks took in this window of time and the one before.
  uint64_t most_used() const noexcept { return std::max(used_now_, used_before_); }
  void note_use(uint64_t bytes) noexcept {
    used_now_ = std::max(used_now_, reserved() - hole_bytes() + bytes);
  }
  void next_window() noexcept { used_before_ = std::exchange(used_now_, reserved() - hole_bytes()); }

  /// Whether it keeps what it is entitled to if it loses `bytes` of its memory.
  bool spares(uint64_t bytes) const noexcept {
    return reserved() >= bytes + most_used() + most_used() / policy::kEntitledParts;
  }

 private:
  StreamState& state_;
  uint64_t used_now_ = 0;
  uint64_t used_before_ = 0;
  std::atomic<Stream> lane_stream_{kNoLane};
};

/// Checks that a number can be a stream of a pool. Turns CU_STREAM_LEGACY into the 0 that it means.
Status check_stream(Stream& stream);

/// The heap that a block, live or not, belongs to.
inline StreamHeap& heap_of(const Range& block) noexcept {
  return *static_cast<StreamHeap*>(block.heap);
}

/// All that the pool knows of a stream. In a capture-aware pool, each capture has a state of its own.
struct StreamState {
  StreamState(MeteredDevice& driver, const uint64_t& round, Space& space, Stream stream)
      : order(driver, round, stream),
        heaps{StreamHeap{SizeGroup::small, space, *this}, StreamHeap{SizeGroup::large, space, *this}} {}

  StreamHeap& heap(SizeGroup group) noexcept { return heaps[static_cast<size_t>(index_of(group))]; }
  bool has_blocks() const noexcept { return heaps[0].has_blocks() || heaps[1].has_blocks(); }
  void set_lane_stream(Stream stream) noexcept {
    for (StreamHeap& heap : heaps) heap.set_lane_stream(stream);
  }

  StreamOrder order;
  uint64_t capture = 0;  // 0: of no capture, or of one whose graph is gone
  uint32_t inside = 0;   // calls at work on it, maybe without the lock; they keep it for its stream
  std::array<StreamHeap, kGroups> heaps;

  // Links in lists of states that nobody uses now (Streams), and of those that blocks wait for (Pending).
  StreamState* retired_prev = nullptr;
  StreamState* retired_next = nullptr;
  StreamState* waited_prev = nullptr;
  StreamState* waited_next = nullptr;
  BlockUse* waiting_first = nullptr;  // through BlockUse::behind
  BlockUse* waiting_last = nullptr;
  uint64_t graph = 0;  // the capture that it was made for
};

/// A new stream reuses what an old one has left: a state that nobody uses, that holds no block and that the
/// GPU has passed, with its heaps, memory and addresses. So there are never many more states than streams in
/// use at a time, however many streams come and go. Guarded by the pool's lock.
class Streams {
 public:
  Streams(MeteredDevice& driver, Space& space, bool capture_aware)
      : device_(driver), space_(space), capture_aware_(capture_aware) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Finds or makes the state of a stream, or, in a capture-aware pool, of the capture under way on it.
  /// Resumes a parked stream. Throws std::bad_alloc before anything has changed.
  Status find(Stream stream, StreamState*& state) {
    state = capture_aware_ ? nullptr : recent(stream);
    return state != nullptr ? kSuccess : find_further(stream, state);
  }
  /// The same for a stream that uses another one's block. If the driver does not say whether it captures: the
  /// state of the stream itself, which then passes nothing until the driver says. Throws std::bad_alloc.
  StreamState& find_user(Stream stream);

  /// Whether the stream itself, not a capture of it, is known.
  bool knows(Stream stream) const noexcept { return by_stream_.contains(stream); }

  /// Does not touch a stream again: for good, or until it is named again. First calls drain(stream), once no
  /// free of its blocks can reach a thread's cache any more.
  template <typename Drain>
  Status retire(Stream stream, bool for_good, Drain drain);

  /// Ends the states of a capture whose graph is gone. INVALID_ARGUMENT while the capture is under way.
  Status end_capture(uint64_t capture);
  /// Ends all captures, whatever is under way, at the pool's own end.
  void end_captures() noexcept;

  /// Touches no stream again but those that capture, of a pool that nobody uses any more.
  void retire_all() noexcept;

  /// Whether the graph of a capture may still run, as far as the pool knows.
  bool has_capture(uint64_t capture) const noexcept;

  /// Every state, used or not.
  const std::vector<std::unique_ptr<StreamState>>& all() const noexcept { return states_; }
  /// How many streams are known.
  size_t count() const noexcept { return by_stream_.size(); }

  /// Calls visit(state) for the state of each capture.
  template <typename Visit>
  void for_each_capture(Visit visit) const {
    for (const auto& [key, state] : by_capture_) {
      if (state->capture != 0) visit(*state);
    }
  }
  uint64_t bytes() const noexcept { return states_.size() * sizeof(StreamState); }

  /// From here on every order asks the driver anew.
  void next_round() noexcept { ++round_; }

 private:
  using RetiredList = List<StreamState, &StreamState::retired_prev, &StreamState::retired_next>;

  /// The logarithm of how many streams are found without a search.
  static constexpr unsigned kRecentBits = 4;
  /// How many parked streams keep their states; one parked earlier may lose its state to a new stream.
  static constexpr size_t kParkedKept = 16;
  /// How many states to look at for one to reuse.
  static constexpr size_t kTries = 4;

  /// The state of a stream in use that was asked for lately, or null.
  StreamState* recent(Stream stream) const noexcept {
    StreamState* state = recent_[hash_to(kRecentBits, stream)];
    const bool is_its = state != nullptr && state->graph == 0 && state->order.stream() == stream;
    return is_its && !state->order.is_retired() ? state : nullptr;
  }
  Status find_further(Stream stream, StreamState*& state);
  Status capture_of(Stream stream, uint64_t& capture);
  StreamState& find_stream(Stream stream);
  Status find_capture(Stream stream, uint64_t capture, StreamState*& state);
  Status retire_captures(Stream stream);
  bool resume(StreamState& parked);
  StreamState* reuse_or_make(Stream stream, uint64_t capture);
  StreamState* reuse_from(RetiredList& list, Stream stream);
  void sweep_ended() noexcept;
  bool retire_ended(StreamState& state) noexcept;
  Stream lane_stream_of(const StreamState& state) const noexcept;

  MeteredDevice& device_;
  Space& space_;
  const bool capture_aware_;
  uint64_t round_ = 0;
  std::unordered_map<Stream, StreamState*> by_stream_;
  using CaptureKey = std::pair<uint64_t, Stream>;
  std::map<CaptureKey, StreamState*> by_capture_;  // until the graph, and what it left live, is gone
  std::vector<std::unique_ptr<StreamState>> states_;
  std::array<StreamState*, size_t{1} << kRecentBits> recent_{};  // of by_stream_, without captures
  RetiredList released_;
  RetiredList ended_;   // of captures whose graphs are gone, with blocks still in use; in by_capture_ too
  RetiredList parked_;  // in by_stream_ too
};

template <typename Drain>
Status Streams::retire(Stream stream, bool for_good, Drain drain) {
  if (const Status status = retire_captures(stream); status != kSuccess) return status;
  const auto known = by_stream_.find(stream);
  if (known == by_stream_.end()) return kSuccess;
  StreamState& state = *known->second;
  const bool was_parked = state.order.is_retired();
  if (!was_parked) {
    state.set_lane_stream(kNoLane);
    drain(stream);
    if (const Status status = state.order.retire(); status != kSuccess) {
      state.set_lane_stream(lane_stream_of(state));
      return status;
    }
    (for_good ? released_ : parked_).push_back(&state);
  } else if (for_good) {
    parked_.remove(&state);
    released_.push_back(&state);
  }
  if (for_good) by_stream_.erase(known);
  return kSuccess;
}

}  // namespace gpupool::internal
