// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/run_stealer.hpp"

#include <algorithm>
#include <vector>

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

StreamHeap& heap_of(const Chunk& chunk) {
  return *static_cast<StreamHeap*>(chunk.heap);
}

/// The chunk that ends where this one begins, or begins where it ends; null if none does.
const Chunk* before(const Chunk& chunk) {
  const Region& region = *chunk.region;
  return chunk.address == region.base ? nullptr : region.chunk_at(region.page_of(chunk.address) - 1);
}
const Chunk* after(const Chunk& chunk) {
  const Region& region = *chunk.region;
  return chunk.end() == region.end() ? nullptr : region.chunk_at(region.page_of(chunk.end()));
}

/// A run of at least `size` bytes around a chunk, or the longest that there is: of neighbours that `may_take`
/// lets it have, forwards first. Counts `steps` down by those that it looks at.
template <typename MayTake>
Window run_around(const Chunk& start, uint64_t size, size_t& steps, MayTake may_take) {
  Window run{start.region, start.address, start.end()};
  const auto go_on = [&](const Chunk* chunk) {
    if (chunk == nullptr || size_of(run) >= size || steps == 0) return false;
    --steps;
    return may_take(*chunk);
  };
  for (const Chunk* at = after(start); go_on(at); at = after(*at)) run.end = at->end();
  for (const Chunk* at = before(start); go_on(at); at = before(*at)) run.start = at->address;
  return run;
}

}  // namespace

bool RunStealer::steal(const Request& request, uint64_t most, bool all) {
  if (pool_.space.free_chunks.bytes() == 0) return false;
  const uint64_t now = pool_.device.now_ns();
  const bool apart =
      !all && pool_.surplus.keeps_apart(request.bytes, now) && pool_.surplus.has_room(request.bytes);
  pool_.surplus.note_use(request.heap(), request.bytes);
  // Streams that take turns then get all that the last one had at once, and give it on in the same way.
  if (!apart && pool_.surplus.moved_too_much(now)) most = ~uint64_t{0};
  const Search search{request, most, all, apart};
  Window run;
  uint64_t last_use = 0;  // 0: the run is idle
  if (const StreamHeap* from = find_of_one(search, run, last_use)) {
    if (last_use != 0 && from->state().order.make_wait(request.user, last_use) != kSuccess) return false;
  } else if (!find_side_by_side(search, run)) {
    // Growth may go on at its ends, and would move what is in it.
    const bool helps = size_of(run) >= request.hole() / 4 && !run.region->is_segment;
    const bool grows_by_moving =
        !apart && pool_.options.slack <= 0 && pool_.retention.lets_move(request.state, request.state, false);
    if (helps && grows_by_moving) take(request, run, 0);
    return false;
  }
  take(request, run, last_use != 0 ? request.state.order.stamp() : 0);
  pool_.surplus.stole_run(now);
  return true;
}

/// Calls visit(heap) until it returns false for heaps of other streams that may lend: of those whose chunks,
/// of about this size or smaller, have been free for longest, and of a few in turn; with `all`, of every
/// stream.
template <typename Visit>
void RunStealer::for_some_heaps(const Search& search, Visit visit) {
  const SizeGroup group = search.request.heap().group();
  const auto look = [&](StreamState& other) {
    if (&other == &search.request.state || !Retention::lets_lend(other)) return true;
    return visit(other.heap(group));
  };
  const auto& states = pool_.streams.all();
  const size_t looks = search.all ? states.size() : std::min(states.size(), policy::kStreamLooks);
  if (looks < states.size()) {
    for (size_t at = SharedChunkLists::class_of(search.most) + 1; at-- > 0;) {
      const Chunk* oldest = pool_.space.free_chunks.oldest(at);
      if (oldest != nullptr && !look(heap_of(*oldest).state())) return;
    }
  }
  if (next_ >= states.size() || looks == states.size()) next_ = 0;
  for (size_t at = 0; at < looks; ++at) {
    StreamState& other = *states[next_];
    next_ = next_ + 1 < states.size() ? next_ + 1 : 0;
    if (!look(other)) return;
  }
}

/// The heap whose free chunks fit best, with the run, and the epoch to wait for: 0 if the run is idle.
StreamHeap* RunStealer::find_of_one(const Search& search, Window& run, uint64_t& last_use) {
  StreamHeap* from = nullptr;
  const uint64_t need = search.request.hole();
  for_some_heaps(search, [&](StreamHeap& heap) {
    StreamOrder& order = heap.state().order;
    Window found;
    if (!heap.find_run(need, found) || size_of(found) > search.most) return true;
    if (search.apart && !heap.spares(size_of(found))) return true;
    if (from != nullptr && size_of(found) >= size_of(run)) return true;
    const uint64_t epoch = last_use_of(found);
    const bool is_idle = order.passed(epoch);
    if (!is_idle && !(order.covers(epoch) && search.request.state.order.can_follow(order))) return true;
    from = &heap;
    run = found;
    last_use = is_idle ? 0 : epoch;
    return size_of(run) >= need + kGranule;
  });
  return from;
}

/// Streams that take turns cut each other's memory into pieces, which still lie side by side.
bool RunStealer::find_side_by_side(const Search& search, Window& run) {
  const uint64_t need = search.request.hole();
  StreamHeap& own = search.request.heap();
  const auto may_take = [&](const Chunk& chunk) {
    if (chunk.users != 0) return false;
    StreamHeap& heap = heap_of(chunk);
    if (&heap == &own) return true;
    return heap.group() == own.group() && Retention::lets_lend(heap.state()) &&
           !(search.apart && !heap.spares(chunk.size)) && heap.state().order.passed(chunk.epoch);
  };
  size_t steps = policy::kChunkSteps;
  run = {};
  const auto look = [&](const StreamHeap& heap) {
    // What was freed since the last event, a small part of what the heap has, may be anywhere in its holes.
    const Chunk* start = heap.free_chunk_of_largest_hole();
    for (size_t skipped = 0; start != nullptr && !may_take(*start); start = after(*start)) {
      if (++skipped > policy::kChunkSkips) return true;
    }
    if (start == nullptr) return true;
    const Window found = run_around(*start, need, steps, may_take);
    if (size_of(found) > size_of(run) && size_of(found) <= search.most) run = found;
    return size_of(run) < need;
  };
  if (look(own)) for_some_heaps(search, look);
  return size_of(run) >= need;
}

/// Makes all of a run the heap's own. Throws std::bad_alloc before anything has changed.
void RunStealer::take(const Request& request, const Window& run, uint64_t epoch) {
  StreamHeap& heap = request.heap();
  std::vector<Window> parts;  // of one heap each
  std::vector<uint64_t> chunks;
  const Heap* last = &heap;
  for_chunks(*run.region, run.start, run.end, [&](const Chunk* chunk) {
    if (chunk->heap != &heap) {
      if (chunk->heap != last) {
        parts.push_back({run.region, chunk->address, chunk->address});
        chunks.push_back(0);
      }
      parts.back().end = chunk->end();
      ++chunks.back();
    }
    last = chunk->heap;
  });
  pool_.space.store.reserve(2 * parts.size());
  for (size_t at = 0; at < parts.size(); ++at) {
    const Window& part = parts[at];
    StreamHeap& from =
        heap_of(*run.region->chunk_at(run.region->is_segment ? 0 : run.region->page_of(part.start)));
    pool_.log.stole(size_of(part), from.state(), request.state, "where it is");
    pool_.ledger.stole(chunks[at], true);
    pool_.log.unmapped(from, part.start, size_of(part));
    from.move_run(part, heap, epoch);
    pool_.log.mapped(heap, part.start, size_of(part));
  }
}

}  // namespace gpupool::internal
