// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/run_stealer.hpp"

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

bool RunStealer::steal(const Request& request, uint64_t most, bool all) {
  if (pool_.space.free_chunks.bytes() == 0) return false;
  StreamState& state = request.state;
  const uint64_t need = request.hole();
  const uint64_t now = pool_.device.raw().now_ns();
  const bool apart = !all && pool_.surplus.keeps_apart(now) && pool_.surplus.has_room(request.bytes);
  StreamHeap& heap = request.heap();
  pool_.surplus.note_use(heap, request.bytes);
  StreamHeap* from = nullptr;
  Window best;
  uint64_t last_use = 0;  // 0: the run is idle
  const auto& states = pool_.streams.all();
  const size_t looks = all ? states.size() : std::min(states.size(), policy::kStreamLooks);
  if (next_ >= states.size() || looks == states.size()) next_ = 0;
  for (size_t look = 0; look < looks; ++look) {
    const auto& other = states[next_];
    next_ = next_ + 1 < states.size() ? next_ + 1 : 0;
    if (other.get() == &state || !Retention::lets_lend(*other)) continue;
    StreamHeap& candidate = other->heap(heap.group());
    Window run;
    if (!candidate.find_run(need, run) || size_of(run) > most) continue;
    if (apart && !candidate.spares(size_of(run))) continue;
    if (from != nullptr && size_of(run) >= size_of(best)) continue;
    const uint64_t epoch = last_use_of(run);
    const bool is_idle = other->order.passed(epoch);
    if (!is_idle && !(other->order.covers(epoch) && state.order.can_follow(other->order))) continue;
    from = &candidate;
    best = run;
    last_use = is_idle ? 0 : epoch;
  }
  if (from == nullptr) return false;
  if (last_use != 0 && from->state().order.make_wait(request.user, last_use) != kSuccess) return false;
  pool_.log.stole(size_of(best), from->state(), state, "where it is");
  pool_.space.store.reserve(2);
  uint64_t chunks = 0;
  for_chunks(*best.region, best.start, best.end, [&](const Chunk*) { ++chunks; });
  pool_.ledger.stole(chunks, true);
  pool_.log.unmapped(*from, best.start, size_of(best));
  from->move_run(best, heap, last_use != 0 ? state.order.stamp() : 0);
  pool_.log.mapped(heap, best.start, size_of(best));
  pool_.surplus.stole_run(now);
  return true;
}

}  // namespace gpupool::internal
