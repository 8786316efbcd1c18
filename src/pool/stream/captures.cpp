// SPDX-License-Identifier: Apache-2.0
#include "pool/stream/captures.hpp"

#include <algorithm>

namespace gpupool::internal {

bool Captures::note(const StreamState& state, const StreamUser& user) {
  if (state.capture != 0) return true;
  uint64_t capture = 0;
  if (device_.capture_id(user, capture) != kSuccess || capture == kCaptureElsewhere) return true;
  if (capture == 0) return false;
  const bool known =
      std::any_of(seen_.begin(), seen_.end(), [&](const Seen& each) { return each.capture == capture; });
  if (!known && !options_.capture_aware && !options_.is_child)
    seen_.push_back({capture, user.stream(), std::this_thread::get_id()});
  return true;
}

uint64_t Captures::kept_bytes() const noexcept {
  uint64_t bytes = 0;
  streams_.for_each_capture([&](const StreamState& state) {
    for (const StreamHeap& heap : state.heaps) bytes += heap.hole_bytes();
  });
  return bytes;
}

Status Captures::release(uint64_t capture) {
  const auto known =
      std::find_if(seen_.begin(), seen_.end(), [&](const Seen& each) { return each.capture == capture; });
  if (known != seen_.end()) {
    const bool is_last = std::none_of(known + 1, seen_.end(),
                                      [&](const Seen& later) { return later.stream == known->stream; });
    const Status status = streams_.check_over(capture, known->stream, known->thread, is_last);
    if (status != kSuccess) return status;
    seen_.erase(known);
  }
  return streams_.end_capture(capture);
}

void Captures::end() noexcept {
  seen_.clear();
  streams_.end_captures();
}

}  // namespace gpupool::internal
