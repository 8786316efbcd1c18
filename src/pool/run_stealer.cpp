// SPDX-License-Identifier: Apache-2.0
#include "pool/run_stealer.hpp"

#include <algorithm>

namespace gpupool::internal {
namespace {

uint64_t last_use_of(const Window& run) {
  uint64_t epoch = 0;
  for_chunks(*run.region, run.start, run.end,
             [&](const Chunk* chunk) { epoch = std::max(epoch, chunk->epoch); });
  return epoch;
}

uint64_t size_of(const Window& run) {
  return run.end - run.start;
}

}  // namespace

bool RunStealer::steal(StreamState& state, uint64_t bytes, uint64_t alignment, uint64_t most, bool all) {
  if (rooms_.space.free_chunks.bytes() == 0) return false;
  const uint64_t need = bytes + alignment - kUnit;
  const uint64_t now = rooms_.device.raw().now_ns();
  const bool apart = !all && rooms_.surplus.keeps_apart(now) && rooms_.surplus.has_room(bytes);
  StreamHeap& heap = state.heap(group_of(bytes));
  rooms_.surplus.note_use(heap, bytes);
  StreamHeap* from = nullptr;
  Window best;
  uint64_t last_use = 0;  // 0: the run is idle
  const auto& states = rooms_.streams.all();
  const size_t looks = all ? states.size() : std::min(states.size(), policy::kStreamLooks);
  if (next_ >= states.size() || looks == states.size()) next_ = 0;
  for (size_t look = 0; look < looks; ++look) {
    const auto& other = states[next_];
    next_ = next_ + 1 < states.size() ? next_ + 1 : 0;
    if (other.get() == &state || other->capture != 0) continue;
    StreamHeap& candidate = other->heap(heap.group());
    Window run;
    if (!candidate.find_run(need, run) || size_of(run) > most) continue;
    if (apart && !candidate.spares(size_of(run))) continue;
    if (from != nullptr && size_of(run) >= size_of(best)) continue;
    const uint64_t epoch = last_use_of(run);
    const bool is_idle = other->order.passed(epoch);
    if (!is_idle && !state.order.can_follow(other->order)) continue;
    from = &candidate;
    best = run;
    last_use = is_idle ? 0 : epoch;
  }
  if (from == nullptr) return false;
  if (last_use != 0 && from->state().order.make_wait(state.order, last_use) != kSuccess) return false;
  rooms_.narrator.stole(size_of(best), from->state(), state, "where it is");
  rooms_.space.store.reserve(2);
  uint64_t chunks = 0;
  for_chunks(*best.region, best.start, best.end, [&](const Chunk*) { ++chunks; });
  rooms_.ledger.stole(chunks, true);
  rooms_.narrator.unmapped(*from, best.start, size_of(best));
  from->move_run(best, heap, last_use != 0 ? state.order.stamp() : 0);
  rooms_.narrator.mapped(heap, best.start, size_of(best));
  rooms_.surplus.stole_run(now);
  return true;
}

}  // namespace gpupool::internal
