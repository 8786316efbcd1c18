// SPDX-License-Identifier: Apache-2.0
// Backing addresses with chunks: stolen where there is one, created where there is none.
//
// Taking a chunk needs no wait. It is mapped at its new address while its old mapping is still there; work
// queued before may go on using the old one, and stream order keeps it apart from what comes. The old mapping
// is removed once its stream has passed. A chunk of another stream is preferred idle; one that is still in
// use makes the new stream wait for the old one, on the GPU, and is taken only before failing.
#include <algorithm>

#include "base/defer.hpp"
#include "pool/pool.hpp"

namespace gpupool {

/// Makes one hole of at least `bytes` in the heap. On failure nothing is lost: what was mapped is a hole.
Status Pool::grow_vmm(StreamState& state, uint64_t bytes, uint64_t alignment, bool capturing) {
  if (bytes > budget_.limit()) return fail(GPUPOOL_ERROR_OVER_LIMIT, "the request is larger than the limit");
  if (bytes > driver_.info().total) {
    return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the request is larger than the device");
  }
  if (retired_.size() >= kRetiredMax) unmap_retired();
  StreamHeap& heap = state.heap(group_of(bytes));
  Growth growth{state, heap, bytes, capturing, false, ladder_, {}, {}};
  growth.ladder.fine = can_afford_fine();
  std::array<Window, Heap::kMaxWindows> windows;
  size_t count = 0;
  if (Status found = find_places(heap, bytes, alignment, windows, count); found != kSuccess) return found;
  // The cheapest place first. If it cannot be backed, the one with most room takes chunks of any size, and
  // last, chunks of other streams that are still busy.
  count_supply(growth);
  size_t best = 0;
  Cost least = heap.cost(windows[0], growth.supply, growth.ladder, bytes);
  for (size_t i = 1; i < count; ++i) {
    const Cost cost = heap.cost(windows[i], growth.supply, growth.ladder, bytes);
    if (cost < least) {
      least = cost;
      best = i;
    }
  }
  Status status = back(growth, windows[best]);
  for (const bool busy : {false, true}) {
    if (!is_shortage(status)) break;
    if (busy && growth.capturing) break;
    growth.busy = busy;
    count = heap.plan(bytes, alignment, windows);
    if (count == 0) break;  // the place was lost to a mapping that could not be undone
    status = back(growth, windows[count - 1]);
  }
  return status;
}

/// Whether to spend on smaller chunks: in the upper half of the limit, where room counts, and while driver
/// calls have cost less than a hundredth of the time so far, but at least 2 us and at most 4 us a malloc. At
/// most, since small chunks stay dear: those that the idle seconds of a program's start would pay for cost 4
/// per cent of each training step.
bool Pool::can_afford_fine() {
  if (budget_.room() < budget_.limit() / 2) return true;
  uint64_t mallocs = 0;
  for (const auto& cache : caches_) {
    const std::lock_guard lock(cache->lock);
    mallocs += cache->counters.mallocs();
  }
  const uint64_t elapsed = driver_.device().now_ns() - created_at_;
  return driver_.nanoseconds() < std::clamp(elapsed / 100, mallocs * 2000, mallocs * 4000);
}

/// Whether a heap's chunks that became free in `epoch` may move to the growing stream. Its own need no wait.
/// Those of others do not either once they are idle; while busy they are taken only in the last resort, since
/// the growing stream must then wait for theirs.
bool Pool::may_take(const Growth& growth, const StreamHeap& heap, uint64_t epoch) {
  StreamState& state = heap.state();
  if (keeps_mappings(state) && !(growth.capturing && &state == &growth.state)) return false;
  if (&state == &growth.state) return true;
  return growth.busy || state.order.passed(epoch, tick_);
}

void Pool::count_supply(Growth& growth) {
  growth.supply = {};
  for (const auto& state : streams_) {
    for (const StreamHeap& heap : state->heaps) {
      const ChunkLists& chunks = heap.free_chunks();
      if (chunks.bytes() == 0) continue;
      for (size_t at = 0; at < ChunkLists::kClasses; ++at) {
        if (chunks.count(at) != 0) growth.supply.add_class(at, count_class(growth, heap, at));
      }
    }
  }
}

/// How many chunks of a class the growth may take. They are looked at one by one only while the GPU is
/// behind.
size_t Pool::count_class(const Growth& growth, const StreamHeap& heap, size_t size_class) {
  const ChunkLists& chunks = heap.free_chunks();
  if (may_take(growth, heap, chunks.latest_epoch(size_class))) return chunks.count(size_class);
  size_t count = 0;
  for (const Chunk* chunk = chunks.oldest(size_class); chunk != nullptr; chunk = chunk->next) {
    if (may_take(growth, heap, chunk->epoch)) ++count;
  }
  return count;
}

/// The places that a request could go to, at least one; reserves more addresses if there are none.
Status Pool::find_places(StreamHeap& heap, uint64_t bytes, uint64_t alignment,
                         std::array<Window, Heap::kMaxWindows>& windows, size_t& count) {
  count = heap.plan(bytes, alignment, windows);
  if (count != 0) return kSuccess;
  if (const Status status = add_region(heap, bytes + alignment); status != kSuccess) return status;
  count = heap.plan(bytes, alignment, windows);
  return count != 0 ? kSuccess : fail(GPUPOOL_ERROR_INTERNAL, "a new region of addresses has no room");
}

/// Reserves addresses for a heap: as many as the device has memory, which costs nothing, so that holes in
/// them never matter; fewer where the driver has not so many left.
Status Pool::add_region(StreamHeap& heap, uint64_t bytes) {
  uint64_t size = std::bit_ceil(std::max(driver_.info().total, kGranule));
  if (heap.group() == Group::small) size /= 16;
  const uint64_t least = align_up(bytes, kGranule);
  for (size = std::max(align_up(size, kGranule), least);;
       size = std::max(align_up(size / 2, kGranule), least)) {
    Address base = 0;
    const Status status = driver_.reserve_addresses(size, base);
    if (status == kSuccess) {
      if (!AddressMap::covers(base, size)) {
        (void)driver_.release_addresses(base, size);
        return fail(GPUPOOL_ERROR_UNSUPPORTED, "the driver's addresses do not fit in 48 bits");
      }
      heap.add_region(base, size);
      return kSuccess;
    }
    if (size == least) return status;
  }
}

Status Pool::back(Growth& growth, const Window& window) {
  // Chunks that the window has already must not be stolen to fill its gaps.
  growth.heap.claim_window(window);
  const Defer unclaim([&] { growth.heap.unclaim_window(window); });
  count_supply(growth);
  Status status = kSuccess;
  Gap gap;
  while (status == kSuccess && growth.heap.next_gap(window, window.start, gap)) {
    status = fill(growth, window, gap);
  }
  return status;
}

/// Backs one gap: collects chunks for all of it, maps them, makes them accessible in one call, and only then
/// takes them from where they were.
Status Pool::fill(Growth& growth, const Window& window, const Gap& gap) {
  const size_t most = gap.size / kGranule;
  std::vector<Piece> pieces;
  pieces.reserve(most);
  retired_.reserve(retired_.size() + most);
  in_hand_.reserve(in_hand_.size() + most);
  space_.store.reserve(4 * most + 4);
  Defer give_up([&] { put_back(pieces); });
  if (const Status status = collect(growth, gap, pieces); status != kSuccess) return status;
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.chunk->size;
  growth.heap.prepare_attach(window.region, gap.address, total);
  if (const Status status = map_pieces(gap, pieces, window.region, growth.heap); status != kSuccess)
    return status;
  give_up.cancel();
  Address address = gap.address;
  for (const Piece& piece : pieces) {
    Chunk* chunk = piece.chunk;
    if (piece.from != nullptr) {
      const uint64_t epoch = chunk->epoch;
      ++chunk->old_mappings;
      retired_.push_back({piece.from, detach(chunk), chunk, epoch});
      ++steals_;
      if (&piece.from->state() != &growth.state) ++stream_steals_;
    }
    attach(growth.heap, window.region, address, chunk, growth.state.order.stamp());
    // Still this growth's own if the window touches it.
    if (address < window.end) growth.heap.claim(chunk);
    address += chunk->size;
  }
  return kSuccess;
}

Status Pool::map_pieces(const Gap& gap, const std::vector<Piece>& pieces, Region* region, StreamHeap& heap) {
  Address address = gap.address;
  Status status = kSuccess;
  for (const Piece& piece : pieces) {
    status = driver_.map(address, piece.chunk->size, piece.chunk->handle);
    if (status != kSuccess) break;
    address += piece.chunk->size;
  }
  if (status == kSuccess) status = driver_.set_access(gap.address, address - gap.address);
  if (status == kSuccess || address == gap.address) return status;
  const ErrorRecord cause = last_error();
  if (driver_.unmap(gap.address, address - gap.address) != kSuccess) {
    // Until the driver takes the mappings back, these addresses cannot be used, nor the chunks given back.
    Address at = gap.address;
    for (const Piece& piece : pieces) {
      if (at == address) break;
      ++piece.chunk->old_mappings;
      retired_.push_back({&heap, heap.quarantine(region, at, piece.chunk->size), piece.chunk, 0});
      at += piece.chunk->size;
    }
  }
  last_error() = cause;
  return status;
}

Status Pool::collect(Growth& growth, const Gap& gap, std::vector<Piece>& pieces) {
  for (uint64_t covered = 0; covered < gap.size;) {
    Piece piece{};
    const Status status = next_piece(growth, gap.size - covered, gap.room - covered, piece);
    if (status != kSuccess) return status;
    pieces.push_back(piece);
    covered += piece.chunk->size;
  }
  return kSuccess;
}

void Pool::put_back(const std::vector<Piece>& pieces) noexcept {
  for (const Piece& piece : pieces) {
    if (piece.from != nullptr) {
      piece.from->unclaim(piece.chunk);
    } else {
      in_hand_.push_back(piece.chunk);
    }
  }
}

/// One chunk towards `need` bytes, of at most `room`.
Status Pool::next_piece(Growth& growth, uint64_t need, uint64_t room, Piece& piece) {
  if (growth.heap.group() == Group::small) {
    // Long-lived little blocks must not hold large chunks.
    room = std::min(room,
                    std::max(need, growth.ladder.chunk_size(growth.heap.reserved(), kGranule, need, room)));
  }
  for (size_t i = in_hand_.size(); i-- > 0;) {
    if (in_hand_[i]->size > room) continue;
    piece = {in_hand_[i], nullptr};
    in_hand_.erase(in_hand_.begin() + static_cast<ptrdiff_t>(i));
    return kSuccess;
  }
  if (!prefers_creating(need) && steal(growth, need, room, piece)) return kSuccess;
  const Status status = create_for(growth, need, room, piece.chunk);
  if (!is_shortage(status)) return status;
  return steal(growth, need, room, piece) ? kSuccess : status;
}

bool Pool::prefers_creating(uint64_t bytes) const noexcept {
  if (options_.slack <= 0) return false;
  const auto live = static_cast<double>(counters_.peak_all().allocated.allocated);
  return static_cast<double>(budget_.used() + bytes) <= (1 + options_.slack) * live;
}

/// Takes the oldest chunk of the size that fits best, the stream's own before others'.
bool Pool::steal(Growth& growth, uint64_t need, uint64_t room, Piece& piece) {
  for (;;) {
    const size_t size_class = growth.supply.pick(need, room);
    if (size_class == Supply::kNone) return false;
    StreamHeap* from = nullptr;
    Chunk* chunk = nullptr;
    for (StreamHeap& heap : growth.state.heaps) consider(growth, heap, size_class, from, chunk);
    for (const auto& state : streams_) {
      if (chunk != nullptr) break;
      for (StreamHeap& heap : state->heaps) consider(growth, heap, size_class, from, chunk);
    }
    if (chunk != nullptr && hold(growth, from->state(), chunk->epoch) == kSuccess) {
      growth.supply.remove_class(size_class);
      from->claim(chunk);
      piece = {chunk, from};
      return true;
    }
    // Creating a chunk may have released some, or the driver refused the wait.
    growth.supply.clear_class(size_class);
  }
}

/// Keeps the oldest chunk of a class that the growth may take.
void Pool::consider(const Growth& growth, StreamHeap& heap, size_t size_class, StreamHeap*& from,
                    Chunk*& best) {
  for (Chunk* chunk = heap.free_chunks().oldest(size_class); chunk != nullptr; chunk = chunk->next) {
    if (best != nullptr && best->age < chunk->age) return;
    if (!may_take(growth, heap, chunk->epoch)) continue;
    from = &heap;
    best = chunk;
    return;
  }
}

/// Makes the growing stream wait for another one, once for each epoch that matters.
Status Pool::hold(Growth& growth, StreamState& from, uint64_t epoch) {
  if (&from == &growth.state || from.order.passed(epoch, tick_)) return kSuccess;
  for (auto& [state, until] : growth.held) {
    if (state == &from && until >= epoch) return kSuccess;
  }
  growth.held.reserve(growth.held.size() + 1);
  const Status status = from.order.hold(growth.state.order, epoch);
  if (status == kSuccess) growth.held.emplace_back(&from, epoch);
  return status;
}

/// Creates a chunk for part of a gap: of the ladder's size, smaller where the limit or the device has no
/// room, and last in place of older chunks that could not be used here.
Status Pool::create_for(Growth& growth, uint64_t need, uint64_t room, Chunk*& chunk) {
  uint64_t size = growth.ladder.chunk_size(growth.heap.reserved(), growth.block, need, room);
  for (;;) {
    Status status = create_chunk(size, chunk);
    if (status == kSuccess) return kSuccess;
    if (!is_shortage(status)) return status;
    if (size > kGranule) {
      size = std::max(floor_power_of_two(size / 2), kGranule);
      continue;
    }
    const ErrorRecord cause = last_error();
    bool blocked = false;
    Status released = kSuccess;
    if (!release_oldest(blocked, released)) {
      last_error() = cause;
      return released != kSuccess ? released : status;
    }
  }
}

Status Pool::create_chunk(uint64_t size, Chunk*& chunk) {
  auto created = std::make_unique<Chunk>();
  if (!budget_.take(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "creating %llu bytes would go over the limit",
                static_cast<unsigned long long>(size));
  }
  const Status status = driver_.create_chunk(size, created->handle);
  if (status != kSuccess) {
    budget_.put(size);
    return status;
  }
  created->size = size;
  reserved_.add(size);
  chunks_.add(1);
  chunk = created.release();
  return kSuccess;
}

void Pool::attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept {
  heap.attach(region, address, chunk, epoch, ++age_);
  const auto group = static_cast<size_t>(index_of(heap.group()));
  group_reserved_[group].add(chunk->size);
  group_chunks_[group].add(1);
}

Block* Pool::detach(Chunk* chunk) noexcept {
  const auto group = static_cast<size_t>(index_of(chunk->heap->group()));
  group_reserved_[group].subtract(chunk->size);
  group_chunks_[group].subtract(1);
  return chunk->heap->detach(chunk);
}

/// Removes the old mappings whose streams have passed, neighbours in one call.
void Pool::unmap_retired() {
  size_t kept = 0;
  for (size_t i = 0; i < retired_.size();) {
    const auto passed = [&](const Retired& entry) {
      StreamState& state = entry.heap->state();
      return !keeps_mappings(state) && state.order.passed(entry.epoch, tick_);
    };
    size_t next = i + 1;
    bool removed = false;
    if (passed(retired_[i])) {
      const Address start = retired_[i].range->address;
      Address end = retired_[i].range->end();
      while (next < retired_.size() && retired_[next].range->address == end &&
             retired_[next].range->region == retired_[i].range->region && passed(retired_[next])) {
        end = retired_[next++].range->end();
      }
      removed = driver_.unmap(start, end - start) == kSuccess;
    }
    for (; i < next; ++i) {
      Retired& entry = retired_[i];
      if (!removed) {
        retired_[kept++] = entry;
        continue;
      }
      --entry.chunk->old_mappings;
      Heap::restore(entry.range);
    }
  }
  retired_.resize(kept);
}

}  // namespace gpupool
