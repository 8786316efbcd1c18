// SPDX-License-Identifier: Apache-2.0
// Memory that graphs use. A graph may run at any time, with the addresses it captured built in: what its
// capture used stays mapped where it is until release_capture() says that the graph is gone, or the pool
// ends.
//
// In a capture-aware pool each capture has a state of its own, whose memory nothing else gets. Within it
// chunks may move, since the graph's own order keeps what it reads apart from what it writes later; their old
// mappings stay. A pool without that flag only sees captures when it grows. From the first one on it moves
// nothing and gives nothing back, for it cannot tell what the graph uses. A child pool does so always, until
// it is asked for its memory.
#include <algorithm>

#include "pool/pool.hpp"

namespace gpupool::internal {

Status Pool::capture_id(Stream stream, uint64_t& capture) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  uint64_t found = 0;
  if (const Status status = device_.capture_id(stream, found); status != kSuccess) return status;
  capture = found == kCaptureElsewhere ? 0 : found;
  return kSuccess;
}

/// Whether a stream captures that the pool is about to grow for; remembers the capture. Throws
/// std::bad_alloc.
bool Pool::note_capture(const StreamState& state) {
  if (state.capture != 0) return true;
  uint64_t capture = 0;
  if (device_.capture_id(state.order.stream(), capture) != kSuccess || capture == kCaptureElsewhere)
    return true;
  if (capture == 0) return false;
  const bool known = std::find(captures_.begin(), captures_.end(), capture) != captures_.end();
  if (!known && !options_.capture_aware && !options_.is_child) captures_.push_back(capture);
  return true;
}

/// Whether the mapping of a heap's addresses must stay though nothing in the pool uses it.
bool Pool::keeps_mappings(const StreamState& state) const noexcept {
  return state.capture != 0 || !captures_.empty();
}

Status Pool::release_capture(uint64_t capture) {
  if (capture == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "0 is the number of no capture");
  const Lock lock = enter();
  if (const auto known = std::find(captures_.begin(), captures_.end(), capture); known != captures_.end()) {
    if (const Status status = check_ended(capture); status != kSuccess) return status;
    captures_.erase(known);
  }
  if (const Status status = streams_.end_capture(capture); status != kSuccess) return status;
  if (options_.vmm) unmap_retired();
  return kSuccess;
}

/// Whether no stream is in the capture any more.
Status Pool::check_ended(uint64_t capture) {
  for (const auto& state : streams_.all()) {
    uint64_t now = 0;
    if (state->order.released()) continue;
    if (const Status status = device_.capture_id(state->order.stream(), now); status != kSuccess)
      return status;
    if (now == capture) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the capture is still under way");
  }
  return kSuccess;
}

}  // namespace gpupool::internal
