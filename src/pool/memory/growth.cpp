// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/growth.hpp"

#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"
#include "base/reserve.hpp"
#include "pool/memory/release.hpp"

namespace gpupool::internal {
namespace {

const StreamState* origin_of(const Piece& piece) {
  return piece.from != nullptr ? &piece.from->state() : nullptr;
}

}  // namespace

Growth::Growth(PoolState& pool, Addresses& addresses, const Request& request, bool capturing)
    : pool_(pool),
      addresses_(addresses),
      request_(request),
      state_(request.state),
      heap_(request.heap()),
      bytes_(request.bytes),
      capturing_(capturing),
      sizer_(pool_.sizer) {
  pool_.surplus.note_use(heap_, bytes_);
  const uint64_t before = pool_.device.nanoseconds();
  unmap_passed(pool_);
  moved_ns_ = pool_.device.nanoseconds() - before;
  choose_rung();
}

Growth::~Growth() {
  pool_.surplus.moved(between_, within_, moved_ns_);
}

/// Whether to pay for smaller chunks: in the upper half of the limit, where room counts, or while driver
/// calls have cost little so far. In its lowest part, chunks may be large, above all inside a block.
void Growth::choose_rung() {
  const Budget& budget = pool_.ledger.budget();
  const uint64_t limit = std::min(budget.limit(), pool_.device.info().total);
  const uint64_t used = pool_.ledger.used();
  // What neighbours have cached is room too, and every chunk of it costs time in both processes.
  const bool shares = pool_.group.limit != nullptr;
  const uint64_t room = shares ? limit - std::min(used, limit) : budget.room();
  sizer_.fine = room < limit / 2 || calls_were_cheap();
  if (shares) {
    sizer_.max_shared = limit / policy::kLargeGroupParts;
    sizer_.block_parts = policy::kLargeGroupBlockParts;
  }
  if (pool_.options.max_chunk != 0) return;
  if (shares && !sizer_.fine) {
    sizer_.max_inside = std::min(
        {limit / policy::kLargeGroupParts, bytes_ / policy::kLargeGroupBlockParts, policy::kLargestChunk});
  }
  const uint64_t taken = std::max(used, limit - std::min(limit, budget.room()));  // by neighbours, too
  if (taken > limit / policy::kLargeLimitParts) return;
  const uint64_t parts = shares ? policy::kLargeGroupSharedParts : policy::kLargeSharedParts;
  sizer_.max_chunk = std::clamp(used / parts, policy::kMaxChunk, policy::kLargestChunk);
  // Streams lend each other what they hold. Alone, a stream's chunks are large only for its largest blocks.
  const uint64_t whole = std::max(bytes_, pool_.streams.count() > 1 ? used : 0);
  sizer_.max_inside =
      std::max(sizer_.max_inside, std::min(whole / policy::kLargeParts, policy::kLargestChunk));
}

bool Growth::calls_were_cheap() const {
  uint64_t mallocs = 0;
  pool_.caches.for_each_locked([&](const ThreadCache& cache) { mallocs += cache.counters.mallocs(); });
  const uint64_t elapsed = pool_.device.age_ns();
  return pool_.device.nanoseconds() < std::clamp(elapsed / policy::kFineTimeParts,
                                                 mallocs * policy::kFineLeastNs,
                                                 mallocs * policy::kFineMostNs);
}

/// Whether to create what a place lacks rather than move what there is: if there is room for that much, and
/// the block is worth it.
void Growth::choose_source(const Window& window) {
  const uint64_t lacks = missing(window);
  if (!pool_.surplus.has_room(lacks)) return;
  const uint64_t now = pool_.device.now_ns();
  creates_ = pool_.surplus.prefers_creating(lacks, now);
  apart_ = pool_.surplus.keeps_apart(bytes_, now);
}

/// Bytes of the window that nothing backs.
uint64_t Growth::missing(const Window& window) const {
  uint64_t bytes = 0;
  Gap gap;
  for (Address from = window.start; heap_.next_gap(window, from, gap); from = gap.address + gap.size) {
    bytes += gap.size;
  }
  return bytes;
}

/// Tries the cheapest place first. If that cannot be backed, the place with most room takes chunks of any
/// size and, as a last resort, busy chunks of other streams.
Status Growth::run() {
  Windows windows;
  size_t count = 0;
  if (const Status found = find_places(windows, count); found != kSuccess) return found;
  choose_source(cheapest(windows, count));
  count_supply();
  Status status = back_window(cheapest(windows, count));
  for (const bool busy : {false, true}) {
    if (!is_shortage(status)) break;
    if (busy && capturing_) break;
    busy_ = busy;
    count = find_windows(windows);
    if (count == 0) break;  // the place was lost to a mapping that could not be undone
    status = back_window(windows[count - 1]);
  }
  return status;
}

/// At least one, or a status.
Status Growth::find_places(Windows& windows, size_t& count) {
  if (request_.at == 0) return addresses_.find_places(heap_, bytes_, request_.alignment, windows, count);
  count = find_windows(windows);
  if (count != 0) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the addresses at 0x%" PRIx64 " are in use", request_.at);
}

/// Where the request says where, only that place.
size_t Growth::find_windows(Windows& windows) const {
  if (request_.at == 0) return heap_.find_windows(bytes_, request_.alignment, windows);
  return heap_.find_window(request_.at, bytes_, windows[0]) ? 1 : 0;
}

const Window& Growth::cheapest(const Windows& windows, size_t count) const {
  size_t best = 0;
  Cost least = heap_.cost(windows[0], supply_, sizer_, bytes_);
  for (size_t i = 1; i < count; ++i) {
    const Cost cost = heap_.cost(windows[i], supply_, sizer_, bytes_);
    if (cost < least) {
      least = cost;
      best = i;
    }
  }
  return windows[best];
}

// ---- what may be moved

/// Whether a free chunk may move to the growing stream. Its own chunks need no wait, nor do idle ones of
/// other streams. For busy ones the growing stream must wait for theirs: it does so if that will hardly hold
/// it up, and else as a last resort.
bool Growth::may_steal(const Chunk& chunk) const {
  const auto& heap = *static_cast<StreamHeap*>(chunk.heap);
  StreamState& state = heap.state();
  const bool is_own = &state == &state_;
  if (!pool_.retention.lets_move(state, state_, capturing_)) return false;
  if (!is_own && apart_ && !heap.spares(chunk.size)) return false;
  if (is_own || state.order.passed(chunk.epoch)) return true;
  return state.order.covers(chunk.epoch) && (busy_ || state_.order.can_follow(state.order));
}

void Growth::count_supply() {
  supply_ = {};
  if (creates_) return;
  for (size_t at = 0; at < SharedChunkLists::kClasses; ++at) {
    if (const size_t count = count_class(at); count != 0) supply_.add_class(at, count);
  }
}

/// How many chunks of a class the growth may take: of the stream's own, or of those that all heaps share. It
/// looks only at the oldest shared ones. If it may take each of these, it counts all; those that turn out to
/// be busy are not taken.
size_t Growth::count_class(size_t size_class) const {
  size_t own = 0;
  for (const StreamHeap& heap : state_.heaps) {
    const Chunk* chunk = heap.free_chunks().oldest(size_class);
    if (chunk != nullptr && may_steal(*chunk)) own += heap.free_chunks().count(size_class);
  }
  const SharedChunkLists& shared = pool_.space.free_chunks;
  size_t looked = 0;
  size_t good = 0;
  const Chunk* chunk = shared.oldest(size_class);
  for (; chunk != nullptr && looked < policy::kChunkLooks; chunk = SharedChunkLists::after(chunk), ++looked) {
    if (may_steal(*chunk)) ++good;
  }
  if (looked != 0 && good == looked) good = shared.count(size_class);
  return std::max(own, good);
}

// ---- backing a place

Status Growth::back_window(const Window& window) {
  // Chunks that already back the window must not be stolen to fill its gaps.
  heap_.claim_window(window);
  const Defer unclaim([&] { heap_.unclaim_window(window); });
  count_supply();
  Status status = kSuccess;
  Gap gap;
  while (status == kSuccess && heap_.next_gap(window, window.start, gap)) status = back_gap(window, gap);
  return status;
}

/// Backs one gap: collects chunks for all of it, maps them, makes them accessible in one call, and only then
/// takes them from where they were.
Status Growth::back_gap(const Window& window, const Gap& gap) {
  const size_t most = gap.size / kGranule;
  std::vector<Piece> pieces;
  pieces.reserve(most);
  pool_.backing.reserve(most);
  Defer give_up([&] { pool_.backing.unclaim(pieces); });
  if (const Status status = collect_chunks(gap, pieces); status != kSuccess) return status;
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.chunk->size;
  heap_.prepare_attach(window.region, gap.address, total);
  const uint64_t before = pool_.device.nanoseconds();
  const Status status = pool_.backing.map(gap, pieces, window.region, heap_);
  if (status != kSuccess) return status;
  give_up.cancel();
  note_moved(pieces, total, pool_.device.nanoseconds() - before);
  attach(window, gap.address, pieces);
  return kSuccess;
}

/// Counts what came from elsewhere, and its share of the time that mapping all pieces took. Logs a line for
/// each run of chunks that come from one other stream.
void Growth::note_moved(const std::vector<Piece>& pieces, uint64_t total, uint64_t nanoseconds) {
  uint64_t moved = 0;
  for (size_t at = 0; at < pieces.size();) {
    const StreamState* from = origin_of(pieces[at]);
    uint64_t bytes = 0;
    for (; at < pieces.size() && origin_of(pieces[at]) == from; ++at) bytes += pieces[at].chunk->size;
    if (from == nullptr) continue;
    moved += bytes;
    (from == &state_ ? within_ : between_) += bytes;
    if (from != &state_) pool_.log.stole(bytes, *from, state_, "moved");
  }
  moved_ns_ += static_cast<uint64_t>(static_cast<double>(nanoseconds) * static_cast<double>(moved) /
                                     static_cast<double>(total));
}

void Growth::attach(const Window& window, Address address, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    if (piece.from != nullptr) {
      const StreamState& state = piece.from->state();
      pool_.backing.move_away(piece.chunk, *piece.from, pool_.retention.keeps_mapping(state));
      pool_.ledger.stole(1, &state != &state_);
    }
    // Of a new chunk, no work can be using anything.
    const uint64_t epoch = piece.from != nullptr ? state_.order.stamp() : 0;
    pool_.backing.attach(heap_, window.region, address, piece.chunk, epoch);
    // If the window touches the chunk, this growth still claims it.
    if (address < window.end) heap_.claim_chunk(piece.chunk);
    address += piece.chunk->size;
  }
}

// ---- collecting chunks

Status Growth::collect_chunks(const Gap& gap, std::vector<Piece>& pieces) {
  for (uint64_t covered = 0; covered < gap.size;) {
    Piece piece{};
    const Status status = next_piece(gap.size - covered, gap.room - covered, piece);
    if (status != kSuccess) return status;
    pieces.push_back(piece);
    covered += piece.chunk->size;
  }
  return kSuccess;
}

/// Finds one chunk of at most `room` towards `need` bytes.
Status Growth::next_piece(uint64_t need, uint64_t room, Piece& piece) {
  if (heap_.group() == SizeGroup::small) {
    // Long-lived small blocks must not hold large chunks.
    room = std::min(room, std::max(need, sizer_.chunk_size(heap_.reserved(), kGranule, need, room)));
  }
  piece = {pool_.backing.take_from_hand(room), nullptr};
  if (piece.chunk != nullptr) return kSuccess;
  if (!creates_ && !pool_.surplus.is_within_slack(need) && steal_chunk(need, room, piece)) return kSuccess;
  const Status status = create_chunk(need, room, piece.chunk);
  if (status == kSuccess && creates_) pool_.surplus.created(piece.chunk->size);
  if (!is_shortage(status)) return status;
  if (creates_ || apart_) {
    creates_ = apart_ = false;
    count_supply();
  }
  return steal_chunk(need, room, piece) ? kSuccess : status;
}

/// Takes the oldest chunk of the size that fits best, the stream's own before others'.
bool Growth::steal_chunk(uint64_t need, uint64_t room, Piece& piece) {
  for (;;) {
    const size_t size_class = supply_.pick(need, room);
    if (size_class == Supply::kNone) return false;
    Chunk* chunk = find_free(size_class);
    auto* from = chunk != nullptr ? static_cast<StreamHeap*>(chunk->heap) : nullptr;
    if (chunk != nullptr && wait_for(from->state(), chunk->epoch) == kSuccess) {
      supply_.remove_class(size_class);
      from->claim_chunk(chunk);
      piece = {chunk, from};
      return true;
    }
    // None is left: creating a chunk may have released some, the driver refused the wait, or they are busy.
    supply_.clear_class(size_class);
  }
}

/// A free chunk of a class that the growth may take: the oldest of the stream's own, else one of the oldest
/// of all.
Chunk* Growth::find_free(size_t size_class) const {
  Chunk* best = nullptr;
  for (const StreamHeap& heap : state_.heaps) {
    Chunk* chunk = heap.free_chunks().oldest(size_class);
    if (chunk == nullptr || !may_steal(*chunk)) continue;
    if (best == nullptr || chunk->serial < best->serial) best = chunk;
  }
  Chunk* chunk = best == nullptr ? pool_.space.free_chunks.oldest(size_class) : nullptr;
  for (size_t looked = 0; chunk != nullptr && looked < policy::kChunkLooks;
       chunk = SharedChunkLists::after(chunk), ++looked) {
    if (may_steal(*chunk)) return chunk;
  }
  return best;
}

/// Makes the growing stream wait for another one, once for each epoch that matters.
Status Growth::wait_for(StreamState& from, uint64_t epoch) {
  if (&from == &state_ || from.order.passed(epoch)) return kSuccess;
  for (auto& [state, until] : waits_) {
    if (state == &from && until >= epoch) return kSuccess;
  }
  reserve_more(waits_, 1);
  const Status status = from.order.make_wait(request_.user, epoch);
  if (status == kSuccess) waits_.emplace_back(&from, epoch);
  return status;
}

/// Creates a chunk for part of a gap: of the sizer's size, or smaller if the limit or the device has no room,
/// and as a last resort in place of older chunks that could not be used here.
Status Growth::create_chunk(uint64_t need, uint64_t room, Chunk*& chunk) {
  // Whoever says where blocks go also says how much is to lie there.
  uint64_t size = sizer_.chunk_size(heap_.reserved(), bytes_, need, request_.at == 0 ? room : need);
  for (;;) {
    const Status status = pool_.backing.create(size, chunk);
    if (!is_shortage(status)) return status;
    if (size > kGranule) {
      size = std::max(floor_power_of_two(size / 2), kGranule);
      continue;
    }
    // The target is a granule below what is used, so that at least one chunk goes.
    const ErrorRecord cause = last_error();
    const uint64_t used = pool_.ledger.used();
    const Ledger::Totals before = pool_.ledger.totals();
    bool blocked = false;
    const Status released = release_chunks(pool_, nullptr, used - std::min(used, kGranule), false, blocked);
    if (released != kSuccess) return released;
    pool_.log.released(before, "for a chunk of another size");
    if (pool_.ledger.used() >= used) {
      last_error() = cause;
      return status;
    }
  }
}

}  // namespace gpupool::internal
