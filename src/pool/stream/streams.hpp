// SPDX-License-Identifier: Apache-2.0
// The streams that a pool knows: their heaps and their order, from their first use to their end and beyond.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/no_copy.hpp"
#include "core/heap.hpp"
#include "core/list.hpp"
#include "core/policy.hpp"
#include "pool/cache/thread_cache.hpp"
#include "pool/stream/announcements.hpp"
#include "pool/stream/stream_order.hpp"

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
  uint64_t capture = 0;      // 0: of no capture, or of one whose graph is gone
  uint64_t batch_epoch = 0;  // of the blocks whose users nobody knows (Pending)
  uint64_t uncovered = 0;    // bytes freed since the stream's user last left an event
  uint32_t inside = 0;       // calls at work on it, maybe without the lock; they keep it for its stream
  std::array<StreamHeap, kGroups> heaps;

  // Links in lists of states that nobody uses now (Streams), and of those that blocks wait for (Pending).
  StreamState* retired_prev = nullptr;
  StreamState* retired_next = nullptr;
  StreamState* waited_prev = nullptr;
  StreamState* waited_next = nullptr;
  BlockUse* waiting_first = nullptr;  // through BlockUse::behind
  BlockUse* waiting_last = nullptr;
  uint64_t graph = 0;        // the capture that it was made for
  std::thread::id capturer;  // who made the last call within it
};

/// A new stream reuses what an old one has left: a state that nobody uses, that holds no block and that the
/// GPU has passed, with its heaps, memory and addresses. So there are never many more states than streams in
/// use at a time, however many streams come and go. Guarded by the pool's lock.
class Streams : NoCopy {
 public:
  Streams(MeteredDevice& driver, Space& space, bool capture_aware,
          std::shared_ptr<Announcements> announcements = std::make_shared<Announcements>())
      : device_(driver),
        space_(space),
        capture_aware_(capture_aware),
        announcements_(std::move(announcements)) {}

  /// Finds or makes the state of a stream, or, in a capture-aware pool, of the capture under way on it.
  /// Resumes a parked stream. Throws std::bad_alloc before anything has changed.
  Status find(const StreamUser& user, StreamState*& state) {
    state = capture_aware_ ? nullptr : recent(user.stream());
    return state != nullptr ? kSuccess : find_or_make(user, state);
  }
  /// The same for a stream that uses another one's block. If the driver does not say whether it captures: the
  /// state of the stream itself, which then passes nothing until the driver says. Throws std::bad_alloc.
  StreamState& find_user(const StreamUser& user);
  /// Stands for a number that was released and is named in a free: a new stream may have it, or nobody, so
  /// nobody may touch it. What it uses has passed once all work was waited for. Throws std::bad_alloc.
  StreamState& find_unseen();

  /// Whether the stream itself, not a capture of it, is known.
  bool knows(Stream stream) const noexcept { return by_stream_.contains(stream); }

  /// While a capture is announced, events are left, and streams made to wait, by nobody but a malloc that
  /// takes what another stream has freed and who releases a stream for good: only these callers are sure to
  /// use theirs.
  const std::shared_ptr<Announcements>& announcements() const noexcept { return announcements_; }
  bool is_capture_announced() const noexcept { return announcements_->has_any(); }
  /// The order of a stream that the pool knows, and that is neither released nor parked; else null.
  StreamOrder* order_of(const StreamUser& user) const noexcept {
    StreamState* const state = find_in_use(user.stream());
    return state != nullptr ? &state->order : nullptr;
  }
  /// How many bytes are freed to a thread's cache before the stream's user, who frees them, may look whether
  /// to give what the cache holds to the heaps and leave an event behind it.
  struct Pace {
    bool gives = false;    // now
    uint64_t longest = 0;  // steps double up to this
  };
  Pace pace_of(const StreamUser& user) const noexcept;
  /// Others ask, even of a stream that is alone: a pool that gives idle memory back.
  void ask_always() noexcept { asks_always_ = true; }
  /// In a call of the stream's user: leaves an event if others have asked for one, or may ask, and much was
  /// freed since the last.
  void leave_event(const StreamUser& user, StreamState& state) noexcept;
  /// The same, however little it is, and whether somebody asks or not.
  void leave_event_now(const StreamUser& user) noexcept;
  /// The same, even if nothing was freed: StreamOrder::mark.
  void mark(const StreamUser& user, StreamState& state) noexcept {
    if (!is_capture_announced()) state.order.mark(user);
  }

  /// Does not touch a stream again: for good, or until it is named again. First calls drain(stream), once no
  /// free of its blocks can reach a thread's cache any more.
  template <typename Drain>
  Status retire(const StreamUser& user, bool for_good, Drain drain);

  /// Ends the states of a capture whose graph is gone. INVALID_ARGUMENT while the capture is under way.
  Status end_capture(uint64_t capture);
  /// Checks that a capture is over, which `thread` was seen to make on a stream. If it was the last that was
  /// seen there and the stream captures now, only that thread may ask which capture it is.
  Status check_over(uint64_t capture, Stream stream, std::thread::id thread, bool is_last);
  /// Ends all captures, whatever is under way, at the pool's own end.
  void end_captures() noexcept;

  /// Touches no stream again, of a pool that nobody uses any more.
  void retire_all() noexcept;

  /// Whether the graph of a capture may still run, as far as the pool knows.
  bool has_capture(uint64_t capture) const noexcept;

  // A block may lie in the heap of another stream than the one it was handed out for (Shortage::borrow).

  /// Throws std::bad_alloc.
  void begin_loan(const Range& block, const StreamState& borrower) {
    loans_[block.address] = borrower.order.stream();
  }
  void end_loan(const Range& block) noexcept { loans_.erase(block.address); }
  /// The stream that a block was handed out for.
  Stream stream_of(const Range& block) const noexcept {
    const auto loan = loans_.empty() ? loans_.end() : loans_.find(block.address);
    return loan != loans_.end() ? loan->second : heap_of(block).state().order.stream();
  }
  /// The same, or UNKNOWN once that stream was released.
  Stream known_stream_of(const Range& block) const noexcept;

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
  void expect_questions() noexcept;
  StreamState* find_in_use(Stream stream) const noexcept;
  bool is_asked(const StreamState& state) const noexcept;
  uint64_t event_step(const StreamState& state) const noexcept;
  Status find_or_make(const StreamUser& user, StreamState*& state);
  Status capture_of(const StreamUser& user, uint64_t& capture);
  StreamState& find_stream(const StreamUser& user);
  StreamState& find_capture(const StreamUser& user, uint64_t capture);
  Status retire_captures(const StreamUser& user, bool leaves_event);
  bool resume(StreamState& parked, const StreamUser& user);
  StreamState* reuse_or_make(Stream stream, uint64_t capture);
  StreamState* reuse_from(RetiredList& list, Stream stream);
  void sweep_ended() noexcept;
  bool retire_ended(StreamState& state) noexcept;
  Stream lane_stream_of(const StreamState& state) const noexcept;

  MeteredDevice& device_;
  Space& space_;
  const bool capture_aware_;
  const std::shared_ptr<Announcements> announcements_;
  uint64_t round_ = 0;
  bool asks_always_ = false;
  StreamState* unseen_ = nullptr;
  std::unordered_map<Address, Stream> loans_;
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
Status Streams::retire(const StreamUser& user, bool for_good, Drain drain) {
  const bool leaves_event = for_good || !is_capture_announced();
  if (const Status status = retire_captures(user, leaves_event); status != kSuccess) return status;
  const Stream stream = user.stream();
  const auto known = by_stream_.find(stream);
  if (known == by_stream_.end()) return kSuccess;
  StreamState& state = *known->second;
  const bool was_parked = state.order.is_retired();
  if (!was_parked) {
    state.set_lane_stream(kNoLane);
    drain(stream);
    if (const Status status = state.order.retire(user, leaves_event); status != kSuccess) {
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
