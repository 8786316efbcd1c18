// SPDX-License-Identifier: Apache-2.0
#include "pool/streams.hpp"

#include <algorithm>

#include "base/defer.hpp"

namespace gpupool {

/// What the heaps of a stream in use are called. Which capture is under way only the driver knows, so that in
/// a capture-aware pool frees take the long way and ask.
Stream Streams::name_of(const StreamState& state) const noexcept {
  return capture_aware_ ? kNameless : state.order.stream();
}

Status Streams::capture_of(Stream stream, uint64_t& capture) {
  capture = 0;
  if (!capture_aware_) return kSuccess;
  if (const Status status = driver_.capture_id(stream, capture); status != kSuccess) return status;
  if (capture == kCaptureElsewhere) capture = 0;
  return kSuccess;
}

Status Streams::find(Stream stream, StreamState*& state) {
  uint64_t capture = 0;
  if (const Status status = capture_of(stream, capture); status != kSuccess) return status;
  if (capture != 0) return find_capture(stream, capture, state);
  StreamState*& recent = recent_[hash_to(kRecentBits, stream)];
  if (recent != nullptr && recent->capture == 0 && recent->order.stream() == stream &&
      !recent->order.released()) {
    state = recent;
    return kSuccess;
  }
  const auto [known, is_new] = by_stream_.try_emplace(stream, nullptr);
  if (is_new || (known->second->order.released() && !take_up(*known->second))) {
    known->second = nullptr;
    Defer forget([&] { by_stream_.erase(known); });
    known->second = take_over_or_make(stream, 0);
    forget.cancel();
  }
  state = recent = known->second;
  state->set_name(name_of(*state));
  return kSuccess;
}

Status Streams::find_capture(Stream stream, uint64_t capture, StreamState*& state) {
  const auto [known, is_new] = by_capture_.try_emplace({capture, stream}, nullptr);
  if (is_new) {
    Defer forget([&] { by_capture_.erase(known); });
    known->second = take_over_or_make(stream, capture);
    forget.cancel();
  }
  state = known->second;
  return kSuccess;
}

/// A parked stream is named again. False where its state has to stay for what it holds.
bool Streams::take_up(StreamState& parked) {
  parked_.remove(&parked);
  if (parked.order.revive()) return true;
  released_.push_back(&parked);
  return false;
}

/// A state that nobody uses, made the new stream's, or a new one.
StreamState* Streams::take_over_or_make(Stream stream, uint64_t capture) {
  StreamState* state = take_over_from(released_, stream);
  if (state == nullptr && parked_.count() > kParkedKept) state = take_over_from(parked_, stream);
  if (state == nullptr) {
    auto created = std::make_unique<StreamState>(driver_, round_, space_, stream);
    state = created.get();
    states_.push_back(std::move(created));
  }
  state->capture = capture;
  for (StreamHeap& heap : state->heaps) heap.set_shares(capture == 0);
  return state;
}

StreamState* Streams::take_over_from(LeftList& list, Stream stream) {
  for (size_t tries = std::min(list.count(), kTries); tries-- > 0;) {
    StreamState* state = list.pop_front();
    const Stream old = state->order.stream();
    if (state->inside == 0 && !state->has_blocks() && state->order.adopt(stream)) {
      if (&list == &parked_) by_stream_.erase(old);
      return state;
    }
    list.push_back(state);
  }
  return nullptr;
}

/// The captures of a stream that goes: their states stay for their graphs, and touch the stream no more.
Status Streams::release_captures(Stream stream) {
  for (const auto& [key, state] : by_capture_) {
    if (key.second != stream) continue;
    if (const Status status = state->order.release(); status != kSuccess) return status;
  }
  return kSuccess;
}

Status Streams::end_capture(uint64_t capture) {
  for (auto each = by_capture_.lower_bound({capture, 0});
       each != by_capture_.end() && each->first.first == capture;) {
    StreamState* state = each->second;
    uint64_t now = 0;
    if (!state->order.released()) {
      if (const Status status = driver_.capture_id(each->first.second, now); status != kSuccess)
        return status;
      if (now == capture) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the capture is still under way");
    }
    state->order.end();
    state->capture = 0;
    for (StreamHeap& heap : state->heaps) heap.set_shares(true);
    released_.push_back(state);
    each = by_capture_.erase(each);
  }
  return kSuccess;
}

void Streams::end_captures() noexcept {
  for (const auto& state : states_) {
    state->capture = 0;
    for (StreamHeap& heap : state->heaps) heap.set_shares(true);
  }
}

}  // namespace gpupool
