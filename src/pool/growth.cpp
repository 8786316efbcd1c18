// SPDX-License-Identifier: Apache-2.0
// Backing addresses with chunks: stolen where there is one, created where there is none.
//
// Taking a chunk needs no wait. It is mapped at its new address while its old mapping is still there; work
// queued before may go on using the old one, and stream order keeps it apart from what comes. The old mapping
// is removed once its stream has passed. A chunk of another stream is preferred idle; one that is still in
// use makes the new stream wait for the old one, on the GPU, and is taken only before failing.
#include <algorithm>
#include <atomic>
#include <cinttypes>

#include "base/defer.hpp"
#include "base/reserve.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal {
namespace {

/// Addresses that all pools of the process have reserved.
constinit std::atomic<uint64_t> reserved_addresses{0};

Status out_of_addresses(Status status, uint64_t size) {
  const int32_t code = last_error().driver_code;
  return fail_driver(status, code, "no %" PRIu64 " bytes of addresses are left in this process", size);
}

}  // namespace

/// Makes one hole of at least `bytes` in the heap. On failure nothing is lost: what was mapped is a hole.
Status Pool::grow_vmm(StreamState& state, uint64_t bytes, uint64_t alignment, bool capturing) {
  if (bytes > ledger_.budget().limit())
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "the request is larger than the limit");
  if (bytes > device_.info().total) {
    return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the request is larger than the device");
  }
  StreamHeap& heap = state.heap(group_of(bytes));
  note_use(heap, bytes);
  const uint64_t now = device_.raw().now_ns();
  const bool room = has_room(bytes);
  Growth growth{state,
                heap,
                bytes,
                capturing,
                false,
                room && prefers_creating(bytes, now),
                room && governor_.keeps_apart(now),
                sizer_,
                {},
                {}};
  const Defer note([&] { note_moved(growth); });
  const uint64_t before = device_.nanoseconds();
  unmap_retired();
  growth.moved_ns = device_.nanoseconds() - before;
  growth.sizer.fine = can_afford_fine();
  std::array<Window, Heap::kMaxWindows> windows;
  size_t count = 0;
  if (Status found = find_places(heap, bytes, alignment, windows, count); found != kSuccess) return found;
  // The cheapest place first. If it cannot be backed, the one with most room takes chunks of any size, and
  // last, chunks of other streams that are still busy.
  count_supply(growth);
  size_t best = 0;
  Cost least = heap.cost(windows[0], growth.supply, growth.sizer, bytes);
  for (size_t i = 1; i < count; ++i) {
    const Cost cost = heap.cost(windows[i], growth.supply, growth.sizer, bytes);
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
/// calls have cost little so far.
bool Pool::can_afford_fine() {
  if (ledger_.budget().room() < ledger_.budget().limit() / 2) return true;
  uint64_t mallocs = 0;
  caches_.for_each_locked([&](const ThreadCache& cache) { mallocs += cache.counters.mallocs(); });
  const uint64_t elapsed = device_.raw().now_ns() - created_at_;
  return device_.nanoseconds() < std::clamp(elapsed / policy::kFineTimeParts, mallocs * policy::kFineLeastNs,
                                            mallocs * policy::kFineMostNs);
}

/// Whether a free chunk may move to the growing stream. Its own need no wait. Those of others do not either
/// once they are idle; while busy they are taken only in the last resort, since the growing stream must then
/// wait for theirs.
bool Pool::may_take(const Growth& growth, const Chunk& chunk) {
  if (options_.is_child) return false;  // a graph may have its addresses
  StreamState& state = static_cast<StreamHeap*>(chunk.heap)->state();
  const bool is_own = &state == &growth.state;
  if (keeps_mappings(state) && !(growth.capturing && is_own)) return false;
  if (!is_own && growth.apart && !static_cast<StreamHeap*>(chunk.heap)->spares(chunk.size)) return false;
  return is_own || growth.busy || state.order.passed(chunk.epoch);
}

void Pool::count_supply(Growth& growth) {
  growth.supply = {};
  if (growth.creates) return;
  for (size_t at = 0; at < SharedChunkLists::kClasses; ++at) {
    if (const size_t count = count_class(growth, at); count != 0) growth.supply.add_class(at, count);
  }
}

/// How many chunks of a class the growth may take: its own, and those that all heaps share. Of these only the
/// oldest are looked at. If it may take each of them, that goes for the others too: what turns out busy is
/// not taken.
size_t Pool::count_class(const Growth& growth, size_t size_class) {
  size_t own = 0;
  for (const StreamHeap& heap : growth.state.heaps) {
    const Chunk* chunk = heap.free_chunks().oldest(size_class);
    if (chunk != nullptr && may_take(growth, *chunk)) own += heap.free_chunks().count(size_class);
  }
  size_t looked = 0;
  size_t good = 0;
  const Chunk* chunk = space_.free_chunks.oldest(size_class);
  for (; chunk != nullptr && looked < policy::kChunkLooks; chunk = SharedChunkLists::after(chunk), ++looked) {
    if (may_take(growth, *chunk)) ++good;
  }
  if (looked != 0 && good == looked) good = space_.free_chunks.count(size_class);
  return std::max(own, good);
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

/// How many addresses a heap gets at a time: as many as the device has memory, which costs nothing, so that
/// holes in them never matter. But addresses are the process's, 2^47 in all, and its other libraries want
/// some too: of half of them, what is left is shared out, a 64th a time. So hundreds of heaps get that much,
/// and thousands still get some.
uint64_t Pool::region_size(Group group) const noexcept {
  constexpr uint64_t kAll = uint64_t{1} << 46;
  constexpr uint64_t kLeast = 64 * kMiB;
  const uint64_t reserved = reserved_addresses.load(std::memory_order_relaxed);
  const uint64_t part = (kAll - std::min(kAll, reserved)) / 64;
  uint64_t size = std::min(std::bit_ceil(device_.info().total), part);
  if (group == Group::small) size /= 16;
  return align_up(std::max(size, kLeast), kGranule);
}

/// Reserves addresses for a heap; fewer where the driver has not so many left.
Status Pool::add_region(StreamHeap& heap, uint64_t bytes) {
  const uint64_t least = align_up(bytes, kGranule);
  uint64_t size = std::max(region_size(heap.group()), least);
  for (;; size = std::max(align_up(size / 2, kGranule), least)) {
    Address base = 0;
    const Status status = device_.reserve_addresses(size, base);
    if (status == kSuccess) {
      Defer release([&] { (void)device_.release_addresses(base, size); });
      if (!AddressMap::covers(base, size)) {
        return fail(GPUPOOL_ERROR_UNSUPPORTED, "the driver's addresses do not fit in 48 bits");
      }
      heap.add_region(base, size);
      release.cancel();
      reserved_addresses.fetch_add(size, std::memory_order_relaxed);
      return kSuccess;
    }
    if (size == least) return is_shortage(status) ? status : out_of_addresses(status, least);
  }
}

void Pool::release_region(Region& region) noexcept {
  if (device_.release_addresses(region.base, region.size) == kSuccess) {
    reserved_addresses.fetch_sub(region.size, std::memory_order_relaxed);
    region.size = 0;
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
  reserve_more(retired_, most);
  reserve_more(kept_, most);
  space_.store.reserve(4 * most + 4);
  Defer give_up([&] { put_back(pieces); });
  if (const Status status = collect(growth, gap, pieces); status != kSuccess) return status;
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.chunk->size;
  growth.heap.prepare_attach(window.region, gap.address, total);
  const uint64_t before = device_.nanoseconds();
  if (const Status status = map_pieces(gap, pieces, window.region, growth.heap); status != kSuccess)
    return status;
  give_up.cancel();
  uint64_t moved = 0;
  for (const Piece& piece : pieces) {
    if (piece.from == nullptr) continue;
    moved += piece.chunk->size;
    (&piece.from->state() == &growth.state ? growth.within : growth.between) += piece.chunk->size;
  }
  growth.moved_ns += static_cast<uint64_t>(static_cast<double>(device_.nanoseconds() - before) *
                                           static_cast<double>(moved) / static_cast<double>(total));
  tell_moved(pieces, growth.state);
  Address address = gap.address;
  for (const Piece& piece : pieces) {
    Chunk* chunk = piece.chunk;
    if (piece.from != nullptr) {
      const uint64_t epoch = chunk->epoch;
      ++chunk->old_mappings;
      const StreamState& state = piece.from->state();
      (keeps_mappings(state) ? kept_ : retired_)
          .push_back({piece.from, detach(chunk), chunk, epoch, state.capture});
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
    status = device_.map(address, piece.chunk->size, piece.chunk->handle);
    if (status != kSuccess) break;
    address += piece.chunk->size;
  }
  if (status == kSuccess) status = device_.set_access(gap.address, address - gap.address);
  if (status == kSuccess || address == gap.address) return status;
  const ErrorRecord cause = last_error();
  if (device_.unmap(gap.address, address - gap.address) != kSuccess) {
    // Until the driver takes the mappings back, these addresses cannot be used, nor the chunks given back.
    Address at = gap.address;
    for (const Piece& piece : pieces) {
      if (at == address) break;
      ++piece.chunk->old_mappings;
      retired_.push_back({&heap, heap.quarantine(region, at, piece.chunk->size), piece.chunk, 0, 0});
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
    room =
        std::min(room, std::max(need, growth.sizer.chunk_size(growth.heap.reserved(), kGranule, need, room)));
  }
  for (Chunk* chunk = in_hand_.first(); chunk != nullptr; chunk = ChunkList::after(chunk)) {
    if (chunk->size > room) continue;
    in_hand_.remove(chunk);
    piece = {chunk, nullptr};
    return kSuccess;
  }
  if (!growth.creates && !is_within_slack(need) && steal(growth, need, room, piece)) return kSuccess;
  const Status status = create_for(growth, need, room, piece.chunk);
  if (status == kSuccess && growth.creates) governor_.created(piece.chunk->size);
  if (!is_shortage(status)) return status;
  if (growth.creates || growth.apart) {
    growth.creates = growth.apart = false;
    count_supply(growth);
  }
  return steal(growth, need, room, piece) ? kSuccess : status;
}

/// Notes what the blocks of a heap take with one of `bytes` that is to come.
void Pool::note_use(StreamHeap& heap, uint64_t bytes) noexcept {
  const uint64_t now = device_.raw().now_ns();
  if (now - window_ >= policy::kApartNs) {
    window_ = now;
    is_new_window_ = true;
    most_used_ = 0;
    for (const auto& state : streams_.all()) {
      for (StreamHeap& each : state->heaps) {
        each.next_window();
        most_used_ += each.most_used();
      }
    }
  }
  const uint64_t before = heap.most_used();
  heap.note_use(bytes);
  most_used_ += heap.most_used() - before;
}

/// After each window, what streams are no longer entitled to and was never live at once goes back to the
/// device.
void Pool::give_back_surplus() noexcept {
  if (!std::exchange(is_new_window_, false) || !sleeper_.is_awake()) return;
  const uint64_t entitled = most_used_ + most_used_ / policy::kEntitledParts;
  bool blocked = false;
  (void)release_free(std::max(entitled, counters_.peak_all().live.allocated), blocked);
}

/// Whether a request should be served by new memory though there is free memory that could be moved: within
/// the slack that the user allows, or where the governor affords it.
bool Pool::prefers_creating(uint64_t bytes, uint64_t now) {
  if (space_.free_chunks.bytes() == 0) return false;
  if (options_.slack > 0) return true;
  return ledger_.used() + bytes <= most_used_ + most_used_ / policy::kSurplusParts &&
         governor_.affords(bytes, now);
}

bool Pool::is_within_slack(uint64_t bytes) const noexcept {
  const auto live = static_cast<double>(counters_.peak_all().live.allocated);
  return options_.slack > 0 && static_cast<double>(ledger_.used() + bytes) <= (1 + options_.slack) * live;
}

/// Whether there is room for memory that could be done without: within the slack that the user allows, else
/// where enough is left, under the limit and on the device, for those who need it.
bool Pool::has_room(uint64_t bytes) {
  if (options_.slack < 0) return false;
  const uint64_t then = ledger_.used() + bytes;
  if (options_.slack > 0) return is_within_slack(bytes);
  const uint64_t total = device_.info().total;
  const uint64_t limit = std::min(ledger_.budget().limit(), total);
  if (then > limit - limit / policy::kRoomParts) return false;
  uint64_t free = 0;
  return device_.raw().free_memory(free) == kSuccess && free >= bytes + total / policy::kRoomParts;
}

void Pool::note_moved(const Growth& growth) noexcept {
  const uint64_t total = growth.between + growth.within;
  const uint64_t now = device_.raw().now_ns();
  const uint64_t between =
      total == 0 ? 0
                 : static_cast<uint64_t>(static_cast<double>(growth.moved_ns) *
                                         static_cast<double>(growth.between) / static_cast<double>(total));
  if (growth.between != 0) governor_.moved_between(between, now);
  if (growth.moved_ns != between) governor_.moved_within(growth.within, growth.moved_ns - between, now);
}

/// Takes the oldest chunk of the size that fits best, the stream's own before others'.
bool Pool::steal(Growth& growth, uint64_t need, uint64_t room, Piece& piece) {
  for (;;) {
    const size_t size_class = growth.supply.pick(need, room);
    if (size_class == Supply::kNone) return false;
    Chunk* chunk = find_free(growth, size_class);
    auto* from = chunk != nullptr ? static_cast<StreamHeap*>(chunk->heap) : nullptr;
    if (chunk != nullptr && hold(growth, from->state(), chunk->epoch) == kSuccess) {
      growth.supply.remove_class(size_class);
      from->claim(chunk);
      piece = {chunk, from};
      return true;
    }
    // Creating a chunk may have released some, the driver refused the wait, or those in front are busy.
    growth.supply.clear_class(size_class);
  }
}

/// A free chunk of a class that the growth may take: the oldest of the stream's own, else one of the oldest
/// of all.
Chunk* Pool::find_free(const Growth& growth, size_t size_class) {
  Chunk* best = nullptr;
  for (const StreamHeap& heap : growth.state.heaps) {
    Chunk* chunk = heap.free_chunks().oldest(size_class);
    if (chunk == nullptr || !may_take(growth, *chunk)) continue;
    if (best == nullptr || chunk->serial < best->serial) best = chunk;
  }
  Chunk* chunk = best == nullptr ? space_.free_chunks.oldest(size_class) : nullptr;
  for (size_t looked = 0; chunk != nullptr && looked < policy::kChunkLooks;
       chunk = SharedChunkLists::after(chunk), ++looked) {
    if (may_take(growth, *chunk)) return chunk;
  }
  return best;
}

/// Makes the growing stream wait for another one, once for each epoch that matters.
Status Pool::hold(Growth& growth, StreamState& from, uint64_t epoch) {
  if (&from == &growth.state || from.order.passed(epoch)) return kSuccess;
  for (auto& [state, until] : growth.held) {
    if (state == &from && until >= epoch) return kSuccess;
  }
  reserve_more(growth.held, 1);
  const Status status = from.order.hold(growth.state.order, epoch);
  if (status == kSuccess) growth.held.emplace_back(&from, epoch);
  return status;
}

/// Creates a chunk for part of a gap: of the ladder's size, smaller where the limit or the device has no
/// room, and last in place of older chunks that could not be used here.
Status Pool::create_for(Growth& growth, uint64_t need, uint64_t room, Chunk*& chunk) {
  uint64_t size = growth.sizer.chunk_size(growth.heap.reserved(), growth.block, need, room);
  for (;;) {
    Status status = create_chunk(size, chunk);
    if (status == kSuccess) return kSuccess;
    if (!is_shortage(status)) return status;
    if (size > kGranule) {
      size = std::max(floor_power_of_two(size / 2), kGranule);
      continue;
    }
    // A granule less than is used now, so that at least one chunk goes.
    const ErrorRecord cause = last_error();
    const uint64_t used = ledger_.used();
    const Standing before = standing();
    bool blocked = false;
    if (const Status released = release_until(used - std::min(used, kGranule), blocked); released != kSuccess)
      return released;
    tell_given_back(before, "for a chunk of another size");
    if (ledger_.used() >= used) {
      last_error() = cause;
      return status;
    }
  }
}

Status Pool::create_chunk(uint64_t size, Chunk*& chunk) {
  auto created = std::make_unique<Chunk>();
  if (!ledger_.budget().take(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "creating %" PRIu64 " bytes would go over the limit", size);
  }
  const Status status = device_.create_chunk(size, created->handle);
  if (status != kSuccess) {
    ledger_.budget().put(size);
    return status;
  }
  created->size = size;
  ledger_.created(size);
  chunk = created.release();
  return kSuccess;
}

void Pool::attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept {
  heap.attach(region, address, chunk, epoch);
  ledger_.attached(heap.group(), chunk->size);
  record_chunk(Happening::map, heap, chunk->address, chunk->size);
}

Range* Pool::detach(Chunk* chunk) noexcept {
  ledger_.detached(chunk->heap->group(), chunk->size);
  record_chunk(Happening::unmap, *static_cast<const StreamHeap*>(chunk->heap), chunk->address, chunk->size);
  return chunk->heap->detach(chunk);
}

/// Removes the old mappings whose streams have passed, neighbours in one call.
void Pool::unmap_retired() noexcept {
  if (!captures_.empty() || !sleeper_.is_awake()) return;
  unmap(retired_);
  unmap(kept_);
}

void Pool::unmap(std::vector<Retired>& entries) noexcept {
  size_t kept = 0;
  for (size_t i = 0; i < entries.size();) {
    const auto passed = [&](const Retired& entry) {
      // The state may be another stream's or capture's by now.
      const bool is_kept = entry.capture != 0 && streams_.has_capture(entry.capture);
      return !is_kept && entry.heap->state().order.passed(entry.epoch);
    };
    size_t next = i + 1;
    bool removed = false;
    if (passed(entries[i])) {
      const Address start = entries[i].range->address;
      Address end = entries[i].range->end();
      while (next < entries.size() && entries[next].range->address == end &&
             entries[next].range->region == entries[i].range->region && passed(entries[next])) {
        end = entries[next++].range->end();
      }
      removed = device_.unmap(start, end - start) == kSuccess;
    }
    for (; i < next; ++i) {
      Retired& entry = entries[i];
      if (!removed) {
        entries[kept++] = entry;
        continue;
      }
      --entry.chunk->old_mappings;
      Heap::restore(entry.range);
    }
  }
  entries.resize(kept);
}

}  // namespace gpupool::internal
