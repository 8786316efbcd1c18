// SPDX-License-Identifier: Apache-2.0
#include "pool/streams.hpp"

#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"

namespace gpupool::internal {

Status check_stream(Stream& stream) {
  constexpr Stream kLegacy = 1;
  constexpr Stream kPerThread = 2;
  if (stream == GPUPOOL_STREAM_UNKNOWN) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_STREAM_UNKNOWN is not a stream");
  }
  if (stream == kPerThread) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "stream 2 is the per-thread default stream, another queue on each thread: create a stream");
  }
  if (stream == kLegacy) stream = 0;
  return kSuccess;
}

/// The lane_stream() of a stream in use. Only the driver knows which capture is under way, so in a
/// capture-aware pool frees take the long way and ask.
Stream Streams::lane_stream_of(const StreamState& state) const noexcept {
  return capture_aware_ ? kNoLane : state.order.stream();
}

Status Streams::capture_of(Stream stream, uint64_t& capture) {
  capture = 0;
  if (!capture_aware_) return kSuccess;
  if (const Status status = device_.capture_id(stream, capture); status != kSuccess) return status;
  if (capture == kCaptureElsewhere) capture = 0;
  return kSuccess;
}

Status Streams::find_further(Stream stream, StreamState*& state) {
  uint64_t capture = 0;
  if (const Status status = capture_of(stream, capture); status != kSuccess) return status;
  if (capture != 0) return find_capture(stream, capture, state);
  state = &find_stream(stream);
  return kSuccess;
}

StreamState& Streams::find_user(Stream stream) {
  StreamState* state = nullptr;
  return find(stream, state) == kSuccess ? *state : find_stream(stream);
}

StreamState& Streams::find_stream(Stream stream) {
  if (StreamState* const state = recent(stream)) return *state;
  const auto [known, is_new] = by_stream_.try_emplace(stream, nullptr);
  if (is_new || (known->second->order.is_retired() && !resume(*known->second))) {
    known->second = nullptr;
    Defer forget([this, at = known] { by_stream_.erase(at); });
    known->second = reuse_or_make(stream, 0);
    forget.cancel();
  }
  StreamState& state = *known->second;
  recent_[hash_to(kRecentBits, stream)] = &state;
  state.set_lane_stream(lane_stream_of(state));
  return state;
}

Status Streams::find_capture(Stream stream, uint64_t capture, StreamState*& state) {
  const auto [known, is_new] = by_capture_.try_emplace({capture, stream}, nullptr);
  if (is_new) {
    Defer forget([this, at = known] { by_capture_.erase(at); });
    known->second = reuse_or_make(stream, capture);
    forget.cancel();
  }
  state = known->second;
  return kSuccess;
}

/// Resumes a parked stream that is named again. False if the state can only stay for what it holds.
bool Streams::resume(StreamState& parked) {
  parked_.remove(&parked);
  if (parked.order.resume()) return true;
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
Status Streams::retire_captures(Stream stream) {
  for (const auto& [key, state] : by_capture_) {
    if (key.second != stream) continue;
    if (const Status status = state->order.retire(); status != kSuccess) return status;
  }
  return kSuccess;
}

Status Streams::end_capture(uint64_t capture) {
  const auto first = by_capture_.lower_bound({capture, 0});
  for (auto each = first; each != by_capture_.end() && each->first.first == capture; ++each) {
    uint64_t now = 0;
    if (each->second->order.is_retired()) continue;
    if (const Status status = device_.capture_id(each->first.second, now); status != kSuccess) return status;
    if (now == capture)
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "capture %" PRIu64 " is still under way", capture);
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
/// still use, or while the stream captures again and cannot say what it has done so far.
bool Streams::retire_ended(StreamState& state) noexcept {
  if (state.has_blocks()) return false;
  const ErrorRecord before = last_error();
  const bool left = state.order.retire() == kSuccess;
  last_error() = before;
  if (!left) return false;
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

void Streams::retire_all() noexcept {
  for (const auto& state : states_) (void)state->order.retire();
}

}  // namespace gpupool::internal
