// SPDX-License-Identifier: Apache-2.0
// Free memory of another stream, taken over where it is mapped: no driver call but the question whether the
// GPU is done with it. Streams that take turns with buffers of like sizes would otherwise pay for moving the
// same chunks back and forth, and segments could not change hands at all.
#include <algorithm>

#include "pool/pool.hpp"

namespace gpupool::internal {
/// Hands the run of idle chunks that fits best to the stream's heap, which has a hole for the request then.
/// False if there is none that is not much larger: it would hold what others then lack. Chunks can be fitted
/// together instead, segments cannot, so that they may be larger. Looks at a few streams, or at all of them
/// if `all`.
bool Pool::take_over(StreamState& state, uint64_t bytes, uint64_t alignment, bool all) {
  if (space_.free_chunks.bytes() == 0) return false;
  const uint64_t need = bytes + alignment - kUnit;
  const uint64_t now = device_.raw().now_ns();
  const bool apart = !all && governor_.keeps_apart(now) && has_room(bytes);
  const uint64_t most = std::max(options_.vmm ? need + need / policy::kTakeOverParts : 2 * need, kGranule);
  StreamHeap& heap = state.heap(group_of(bytes));
  note_use(heap, bytes);
  StreamHeap* from = nullptr;
  Window best;
  const auto& states = streams_.all();
  const size_t looks = all ? states.size() : std::min(states.size(), policy::kStreamLooks);
  if (neighbour_ >= states.size() || looks == states.size()) neighbour_ = 0;
  for (size_t look = 0; look < looks; ++look) {
    const auto& other = states[neighbour_];
    neighbour_ = neighbour_ + 1 < states.size() ? neighbour_ + 1 : 0;
    if (other.get() == &state || other->capture != 0) continue;
    StreamHeap& candidate = other->heap(heap.group());
    Window run;
    if (!candidate.find_run(need, run) || run.end - run.start > most) continue;
    if (apart && !candidate.spares(run.end - run.start)) continue;
    if (from != nullptr && run.end - run.start >= best.end - best.start) continue;
    if (!is_idle(*other, run)) continue;
    from = &candidate;
    best = run;
  }
  if (from == nullptr) return false;
  tell_taken(best.end - best.start, from->state(), state, "where it is");
  space_.store.reserve(2);
  for_chunks(*best.region, best.start, best.end, [this](const Chunk*) {
    ++steals_;
    ++stream_steals_;
  });
  record_chunk(Happening::unmap, *from, best.start, best.end - best.start);
  from->hand_over(best, heap);
  record_chunk(Happening::map, heap, best.start, best.end - best.start);
  governor_.moved_between(policy::kTakeOverNs, now);
  return true;
}

bool Pool::is_idle(StreamState& state, const Window& run) {
  uint64_t epoch = 0;
  for_chunks(*run.region, run.start, run.end,
             [&](const Chunk* chunk) { epoch = std::max(epoch, chunk->epoch); });
  return state.order.passed(epoch);
}

}  // namespace gpupool::internal
