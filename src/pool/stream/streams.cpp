// SPDX-License-Identifier: Apache-2.0
#include "pool/stream/streams.hpp"

#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"

namespace gpupool::internal {

Status check_stream(Stream& stream) {
  constexpr Stream kPerThread = 2;
  if (stream == GPUPOOL_STREAM_UNKNOWN) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_STREAM_UNKNOWN is not a stream");
  }
  if (stream == kPerThread) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "stream 2 is the per-thread default stream, another queue on each thread: create a stream");
  }
  if (stream == kLegacyStream) stream = 0;
  return kSuccess;
}

Status check_stream(StreamUser& user) {
  return check_stream(user.stream_);
}

/// The lane_stream() of a stream in use. Only the driver knows which capture is under way, so in a
/// capture-aware pool frees take the long way and ask.
Stream Streams::lane_stream_of(const StreamState& state) const noexcept {
  return capture_aware_ ? kNoLane : state.order.stream();
}

Status Streams::capture_of(const StreamUser& user, uint64_t& capture) {
  capture = 0;
  if (!capture_aware_) return kSuccess;
  if (const Status status = device_.capture_id(user, capture); status != kSuccess) return status;
  if (capture == kCaptureElsewhere) capture = 0;
  return kSuccess;
}

Status Streams::find_or_make(const StreamUser& user, StreamState*& state) {
  uint64_t capture = 0;
  if (const Status status = capture_of(user, capture); status != kSuccess) return status;
  state = capture != 0 ? &find_capture(user, capture) : &find_stream(user);
  return kSuccess;
}

StreamState& Streams::find_user(const StreamUser& user) {
  StreamState* state = nullptr;
  return find(user, state) == kSuccess ? *state : find_stream(user);
}

/// A stream whose context the driver does not tell is left without events.
StreamState& Streams::find_stream(const StreamUser& user) {
  const Stream stream = user.stream();
  if (StreamState* const state = recent(stream)) return *state;
  const auto [known, is_new] = by_stream_.try_emplace(stream, nullptr);
  if (is_new || (known->second->order.is_retired() && !resume(*known->second, user))) {
    known->second = nullptr;
    Defer forget([this, at = known] { by_stream_.erase(at); });
    known->second = reuse_or_make(stream, 0);
    forget.cancel();
    if (by_stream_.size() == 2) expect_questions();
    if (by_stream_.size() > 2) known->second->order.expect_questions();
  }
  StreamState& state = *known->second;
  const KeepError keep_error;
  (void)state.order.meet();
  recent_[hash_to(kRecentBits, stream)] = &state;
  state.set_lane_stream(lane_stream_of(state));
  return state;
}

StreamState& Streams::find_capture(const StreamUser& user, uint64_t capture) {
  const auto [known, is_new] = by_capture_.try_emplace({capture, user.stream()}, nullptr);
  if (is_new) {
    Defer forget([this, at = known] { by_capture_.erase(at); });
    known->second = reuse_or_make(user.stream(), capture);
    forget.cancel();
  }
  StreamState& state = *known->second;
  state.capturer = std::this_thread::get_id();
  const KeepError keep_error;
  (void)state.order.meet();
  return state;
}

StreamState& Streams::find_unseen() {
  if (unseen_ == nullptr) {
    states_.push_back(std::make_unique<StreamState>(device_, round_, space_, GPUPOOL_STREAM_UNKNOWN));
    unseen_ = states_.back().get();
  }
  return *unseen_;
}

/// From the second stream on, each may be asked.
void Streams::expect_questions() noexcept {
  for (const auto& state : states_) state->order.expect_questions();
}

StreamState* Streams::find_in_use(Stream stream) const noexcept {
  if (StreamState* const state = recent(stream)) return state;
  const auto known = by_stream_.find(stream);
  return known != by_stream_.end() && !known->second->order.is_retired() ? known->second : nullptr;
}

bool Streams::is_asked(const StreamState& state) const noexcept {
  return asks_always_ || state.order.is_asked();
}

/// How many bytes of a stream are freed from one event to the next.
uint64_t Streams::event_step(const StreamState& state) const noexcept {
  const uint64_t reserved = state.heaps[0].reserved() + state.heaps[1].reserved();
  return std::max(is_asked(state) ? kGranule : policy::kSeldomEventBytes, reserved / policy::kEventParts);
}

/// To give away what caches hold costs hits. For a stream that is alone, only a pool that gives idle memory
/// back does it.
Streams::Pace Streams::pace_of(const StreamUser& user) const noexcept {
  const StreamState* const state = find_in_use(user.stream());
  if (state == nullptr || !(asks_always_ || count() > 1)) return {false, 4 * kGiB};
  return {!is_capture_announced(), event_step(*state)};
}

void Streams::leave_event(const StreamUser& user, StreamState& state) noexcept {
  if (is_capture_announced() || (count() <= 1 && !is_asked(state))) return;
  if (!state.order.was_asked_since() && state.uncovered < event_step(state)) return;
  if (state.order.leave_event(user)) state.uncovered = 0;
}

void Streams::leave_event_now(const StreamUser& user) noexcept {
  StreamState* const state = find_in_use(user.stream());
  if (state == nullptr || is_capture_announced()) return;
  if (state->order.leave_event(user)) state->uncovered = 0;
}

/// Resumes a parked stream that is named again. False if the state can only stay for what it holds.
bool Streams::resume(StreamState& parked, const StreamUser& user) {
  parked_.remove(&parked);
  if (parked.order.resume(user, !is_capture_announced())) return true;
  released_.push_back(&parked);
  return false;
}

/// Gives a stream a state that nobody uses, or a new one.
StreamState* Streams::reuse_or_make(Stream stream, uint64_t capture) {
  sweep_ended();
  StreamState* state = reuse_from(released_, stream);
  if (state == nullptr && parked_.count() > kParkedKept) state = reuse_from(parked_, stream);
  if (state == nullptr) {
    auto created = std::make_unique<StreamState>(device_, round_, space_, stream);
    state = created.get();
    states_.push_back(std::move(created));
  }
  state->capture = state->graph = capture;
  state->uncovered = 0;
  for (StreamHeap& heap : state->heaps) heap.set_shares(capture == 0);
  return state;
}

StreamState* Streams::reuse_from(RetiredList& list, Stream stream) {
  for (size_t tries = std::min(list.count(), kTries); tries-- > 0;) {
    StreamState* state = list.pop_front();
    const Stream old = state->order.stream();
    if (state->inside == 0 && !state->has_blocks() && state->order.reuse_for(stream)) {
      if (&list == &parked_) by_stream_.erase(old);
      return state;
    }
    list.push_back(state);
  }
  return nullptr;
}

/// Retires the captures of a stream that goes. Their states stay for their graphs, and leave it alone.
Status Streams::retire_captures(const StreamUser& user, bool leaves_event) {
  for (const auto& [key, state] : by_capture_) {
    if (key.second != user.stream()) continue;
    if (const Status status = state->order.retire(user, leaves_event); status != kSuccess) return status;
  }
  return kSuccess;
}

Status Streams::check_over(uint64_t capture, Stream stream, std::thread::id thread, bool is_last) {
  bool capturing = false;
  if (!is_last) return kSuccess;
  if (const Status status = device_.is_capturing(stream, capturing); status != kSuccess) return status;
  if (!capturing) return kSuccess;
  uint64_t now = capture;
  if (thread == std::this_thread::get_id()) {
    const Status status = device_.capture_id(StreamUser(stream), now);
    if (status != kSuccess) return status;
  }
  if (now != capture) return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
              "capture %" PRIu64 " is still under way, or another has begun on its stream: release it later",
              capture);
}

Status Streams::end_capture(uint64_t capture) {
  const auto first = by_capture_.lower_bound({capture, 0});
  for (auto each = first; each != by_capture_.end() && each->first.first == capture; ++each) {
    const Stream stream = each->first.second;
    if (each->second->order.is_retired()) continue;
    const bool is_last = std::none_of(each, by_capture_.end(), [&](const auto& other) {
      return other.first.second == stream && other.first.first > capture;
    });
    const Status status = check_over(capture, stream, each->second->capturer, is_last);
    if (status != kSuccess) return status;
  }
  for (auto each = first; each != by_capture_.end() && each->first.first == capture;) {
    StreamState* state = (each++)->second;
    if (state->capture == 0) continue;
    state->capture = 0;
    for (StreamHeap& heap : state->heaps) heap.set_shares(true);
    if (!retire_ended(*state)) ended_.push_back(state);
  }
  sweep_ended();
  return kSuccess;
}

bool Streams::has_capture(uint64_t capture) const noexcept {
  auto each = by_capture_.lower_bound({capture, 0});
  while (each != by_capture_.end() && each->first.first == capture && each->second->capture == 0) ++each;
  return each != by_capture_.end() && each->first.first == capture;
}

/// Lets other streams reuse the state of an ended capture. False while it has blocks, which their stream may
/// still use.
bool Streams::retire_ended(StreamState& state) noexcept {
  if (state.has_blocks()) return false;
  const KeepError keep_error;
  const bool may_touch = state.capturer == std::this_thread::get_id() && !is_capture_announced();
  if (!may_touch || state.order.retire(StreamUser(state.order.stream()), true) != kSuccess)
    state.order.retire_untouched();
  by_capture_.erase({state.graph, state.order.stream()});
  released_.push_back(&state);
  return true;
}

/// Retires a few of the states that could not go before, if they can now.
void Streams::sweep_ended() noexcept {
  for (size_t tries = std::min(ended_.count(), kTries); tries-- > 0;) {
    StreamState* state = ended_.pop_front();
    if (!retire_ended(*state)) ended_.push_back(state);
  }
}

void Streams::end_captures() noexcept {
  for (const auto& state : states_) {
    state->capture = 0;
    for (StreamHeap& heap : state->heaps) heap.set_shares(true);
  }
}

Stream Streams::known_stream_of(const Range& block) const noexcept {
  const StreamState& home = heap_of(block).state();
  const Stream stream = stream_of(block);
  const auto known = by_stream_.find(stream);
  const bool is_known = known != by_stream_.end();
  // A released number may be another stream's by now; a parked one is still its own.
  const bool is_there = loans_.contains(block.address)
                            ? is_known
                            : !home.order.is_retired() || (is_known && known->second == &home);
  return is_there ? stream : GPUPOOL_STREAM_UNKNOWN;
}

void Streams::retire_all() noexcept {
  for (const auto& state : states_) state->order.retire_untouched();
}

}  // namespace gpupool::internal
