// SPDX-License-Identifier: Apache-2.0
#include "pool/captures.hpp"

#include <algorithm>

namespace gpupool::internal {

bool Captures::note(const StreamState& state) {
  if (state.capture != 0) return true;
  uint64_t capture = 0;
  if (device_.capture_id(state.order.stream(), capture) != kSuccess || capture == kCaptureElsewhere)
    return true;
  if (capture == 0) return false;
  const bool known = std::find(seen_.begin(), seen_.end(), capture) != seen_.end();
  if (!known && !options_.capture_aware && !options_.is_child) seen_.push_back(capture);
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
  if (const auto known = std::find(seen_.begin(), seen_.end(), capture); known != seen_.end()) {
    if (const Status status = check_ended(capture); status != kSuccess) return status;
    seen_.erase(known);
  }
  return streams_.end_capture(capture);
}

void Captures::end() noexcept {
  seen_.clear();
  streams_.end_captures();
}

/// Checks that no stream is in the capture any more.
Status Captures::check_ended(uint64_t capture) {
  for (const auto& state : streams_.all()) {
    uint64_t now = 0;
    if (state->order.is_retired()) continue;
    if (const Status status = device_.capture_id(state->order.stream(), now); status != kSuccess)
      return status;
    if (now == capture) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the capture is still under way");
  }
  return kSuccess;
}

}  // namespace gpupool::internal
