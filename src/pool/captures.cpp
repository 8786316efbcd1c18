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
#include <cinttypes>
#include <utility>

#include "base/reserve.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal {
namespace {

/// How far above the start of its region, in granules, a chunk may lie beyond four times what its heap holds.
constexpr uint64_t kHigh = 1024;

/// Free chunks of each size that are looked at for those that lie too high, and how many move at a time.
constexpr size_t kLooks = 16;
constexpr size_t kMoves = 16;

bool lies_high(const Chunk& chunk) {
  const StreamHeap& heap = *static_cast<const StreamHeap*>(chunk.heap);
  return chunk.region->page_of(chunk.address) > kHigh + 4 * (heap.reserved() / kGranule) &&
         !heap.state().has_blocks();
}

}  // namespace

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
  return state.capture != 0 || !captures_.empty() || options_.is_child;
}

Status Pool::release_capture(uint64_t capture) {
  if (capture == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "0 is the number of no capture");
  const Lock lock = enter();
  // Each move takes two records of old mappings, and eight of ranges at most.
  reserve_more(retired_, 2 * kMoves);
  space_.store.reserve(8 * kMoves);
  std::vector<Piece> piece(1);
  if (const auto known = std::find(captures_.begin(), captures_.end(), capture); known != captures_.end()) {
    if (const Status status = check_ended(capture); status != kSuccess) return status;
    captures_.erase(known);
  }
  if (const Status status = streams_.end_capture(capture); status != kSuccess) return status;
  if (options_.vmm) {
    lower_chunks(piece);
    unmap_retired();
  }
  tell("capture %" PRIu64 " is released", capture);
  return kSuccess;
}

/// Within a capture chunks move to ever higher addresses, since those that they leave stay mapped, and the
/// next capture goes on from there. So what captures left too high, with nothing around it, is moved to the
/// bottom of its region, about once in a thousand captures. `piece` is one, and there is room for kMoves.
void Pool::lower_chunks(std::vector<Piece>& piece) {
  size_t moved = 0;
  if (!sleeper_.is_awake()) return;
  for (size_t at = 0; captures_.empty() && at < SharedChunkLists::kClasses; ++at) {
    Chunk* next = space_.free_chunks.oldest(at);
    for (size_t looked = 0; next != nullptr && looked < kLooks && moved < kMoves; ++looked) {
      piece[0] = {std::exchange(next, SharedChunkLists::after(next)), nullptr};
      if (lies_high(*piece[0].chunk) && lower(piece)) ++moved;
    }
  }
}

/// Moves a free chunk, if it is idle, to the lowest bare addresses of its heap that are found at once.
bool Pool::lower(const std::vector<Piece>& piece) {
  Chunk* chunk = piece[0].chunk;
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  Region* region = chunk->region;
  const auto fits = [&](const Range* range) {
    return range->heap == &heap && range->is(State::bare) && range->size >= chunk->size;
  };
  const Range* range = region->first;
  for (size_t looked = 0; looked < kLooks && !fits(range) && range->next != nullptr; ++looked)
    range = range->next;
  if (!fits(range) || range->address > chunk->address || !heap.state().order.passed(chunk->epoch))
    return false;
  const Address address = range->address;
  if (map_pieces({address, chunk->size, chunk->size}, piece, region, heap) != kSuccess) return false;
  const uint64_t epoch = chunk->epoch;
  heap.claim(chunk);
  ++chunk->old_mappings;
  retired_.push_back({&heap, detach(chunk), chunk, epoch, 0});
  attach(heap, region, address, chunk, epoch);
  return true;
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
