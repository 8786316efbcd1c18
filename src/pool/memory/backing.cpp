// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/backing.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "base/defer.hpp"
#include "base/reserve.hpp"

namespace gpupool::internal {

// ---- chunks

Status Backing::create(uint64_t size, Chunk*& chunk) {
  Chunk* created = space_.chunks.get();
  Defer recycle([&] { space_.chunks.recycle(created); });
  if (!ledger_.budget().charge(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "creating %" PRIu64 " bytes would go over the limit", size);
  }
  const Status status = device_.create_chunk(size, created->handle);
  if (status != kSuccess) {
    ledger_.budget().refund(size);
    return status;
  }
  created->size = size;
  ledger_.created(size);
  recycle.cancel();
  chunk = created;
  return kSuccess;
}

Status Backing::release(const Departure& departure, Chunk* chunk) {
  if (chunk->heap != nullptr) {
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    Status status = space_.store.try_reserve(2) ? kSuccess
                                                : fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY,
                                                       "the host has no memory for the pool's records");
    if (status == kSuccess) status = device_.unmap(departure, chunk->address, chunk->size);
    if (status != kSuccess) {
      heap->unclaim_chunk(chunk);
      return status;
    }
    Heap::reuse_retired(detach(chunk));
  }
  if (const Status status = device_.release_chunk(departure, chunk->handle); status != kSuccess) {
    in_hand_.push_back(chunk);
    return status;
  }
  ledger_.released(chunk->size);
  space_.chunks.recycle(chunk);
  return kSuccess;
}

uint64_t Backing::bytes_in_hand() const noexcept {
  uint64_t bytes = 0;
  for (const Chunk* chunk = in_hand_.first(); chunk != nullptr; chunk = ChunkList::after(chunk))
    bytes += chunk->size;
  return bytes;
}

Chunk* Backing::take_from_hand(uint64_t room) noexcept {
  for (Chunk* chunk = in_hand_.first(); chunk != nullptr; chunk = ChunkList::after(chunk)) {
    if (chunk->size > room) continue;
    in_hand_.remove(chunk);
    return chunk;
  }
  return nullptr;
}

// ---- mappings

void Backing::reserve(size_t chunks) {
  reserve_more(retired_, chunks);
  reserve_more(kept_, chunks);
  space_.store.reserve(4 * chunks + 4);
}

Status Backing::map(const Gap& gap, const std::vector<Piece>& pieces, Region* region, StreamHeap& heap) {
  Address address = gap.address;
  Status status = kSuccess;
  for (const Piece& piece : pieces) {
    status = device_.map(address, piece.chunk->size, piece.chunk->handle);
    if (status != kSuccess) break;
    address += piece.chunk->size;
  }
  if (status == kSuccess) status = device_.set_access(gap.address, address - gap.address);
  if (status == kSuccess) device_.annotate(gap.address, address - gap.address, Accessibility::closed);
  if (status == kSuccess || address == gap.address) return status;
  const KeepError keep_error;
  if (device_.unmap(Retention::of_unused(), gap.address, address - gap.address) != kSuccess) {
    // Until the driver takes the mappings back, these addresses cannot be used, nor the chunks released.
    Address at = gap.address;
    for (const Piece& piece : pieces) {
      if (at == address) break;
      ++piece.chunk->old_mappings;
      retired_.push_back({&heap, heap.retire_bare(region, at, piece.chunk->size), piece.chunk, 0, 0});
      at += piece.chunk->size;
    }
  }
  return status;
}

void Backing::attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk,
                     uint64_t epoch) noexcept {
  heap.attach(region, address, chunk, epoch);
  ledger_.attached(heap.group(), chunk->size);
  log_.mapped(heap, chunk->address, chunk->size);
}

Range* Backing::detach(Chunk* chunk) noexcept {
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  ledger_.detached(heap.group(), chunk->size);
  log_.unmapped(heap, chunk->address, chunk->size);
  return heap.detach(chunk);
}

void Backing::move_away(Chunk* chunk, StreamHeap& from, bool is_kept) noexcept {
  const uint64_t epoch = chunk->epoch;
  ++chunk->old_mappings;
  (is_kept ? kept_ : retired_).push_back({&from, detach(chunk), chunk, epoch, from.state().capture});
}

void Backing::unclaim(const std::vector<Piece>& pieces) noexcept {
  for (const Piece& piece : pieces) {
    if (piece.from != nullptr) {
      piece.from->unclaim_chunk(piece.chunk);
    } else {
      in_hand_.push_back(piece.chunk);
    }
  }
}

void Backing::unmap_passed(Retention::Cause cause) noexcept {
  unmap_passed(retired_, cause);
  unmap_passed(kept_, cause);
}

void Backing::unmap_passed(std::vector<OldMapping>& entries, Retention::Cause cause) noexcept {
  size_t kept = 0;
  for (size_t i = 0; i < entries.size();) {
    // By now the state may belong to another stream or capture.
    const auto departure_of = [&](const OldMapping& entry) {
      return retention_.unmap(entry.heap->state(), entry.epoch, entry.capture, cause);
    };
    size_t next = i + 1;
    bool removed = false;
    if (const auto departure = departure_of(entries[i])) {
      const Address start = entries[i].range->address;
      Address end = entries[i].range->end();
      while (next < entries.size() && entries[next].range->address == end &&
             entries[next].range->region == entries[i].range->region && departure_of(entries[next])) {
        end = entries[next++].range->end();
      }
      removed = device_.unmap(*departure, start, end - start) == kSuccess;
    }
    for (; i < next; ++i) {
      OldMapping& entry = entries[i];
      if (!removed) {
        entries[kept++] = entry;
        continue;
      }
      --entry.chunk->old_mappings;
      Heap::reuse_retired(entry.range);
    }
  }
  entries.resize(kept);
}

bool Backing::is_unmapped(const Region& region) const noexcept {
  const auto lies_there = [&](const OldMapping& entry) { return entry.range->region == &region; };
  return std::all_of(region.pages.begin(), region.pages.end(),
                     [](const Chunk* chunk) { return chunk == nullptr; }) &&
         std::none_of(retired_.begin(), retired_.end(), lies_there) &&
         std::none_of(kept_.begin(), kept_.end(), lies_there);
}

// ---- back to the device

Status Backing::release_in_hand(PoolLock* lock, uint64_t target, Retention::Cause cause, bool& blocked) {
  Chunk* next = nullptr;
  for (Chunk* chunk = in_hand_.first(); chunk != nullptr && ledger_.used() > target; chunk = next) {
    if (!retention_.lets_unused_go(cause)) return kSuccess;
    next = ChunkList::after(chunk);
    blocked = blocked || chunk->old_mappings != 0;
    if (chunk->old_mappings != 0) continue;
    in_hand_.remove(chunk);
    // It is at no address.
    if (const Status status = release(Retention::of_unused(), chunk); status != kSuccess) return status;
    if (lock != nullptr && lock->give_way()) next = in_hand_.first();
  }
  return kSuccess;
}

namespace {

/// Goes through free chunks in the order in which they became free.
class FreeChunks {
 public:
  explicit FreeChunks(const SharedChunkLists& lists) noexcept : lists_(lists) { find_again(); }

  /// Call it after the lists may have changed.
  void find_again() noexcept {
    for (size_t at = 0; at < next_.size(); ++at) {
      next_[at] = lists_.oldest(at);
      while (next_[at] != nullptr && next_[at]->serial < serial_)
        next_[at] = SharedChunkLists::after(next_[at]);
    }
  }

  /// Null at the end.
  Chunk* next() noexcept {
    Chunk** oldest = nullptr;
    for (Chunk*& each : next_) {
      if (each != nullptr && (oldest == nullptr || each->serial < (*oldest)->serial)) oldest = &each;
    }
    if (oldest == nullptr) return nullptr;
    Chunk* chunk = *oldest;
    *oldest = SharedChunkLists::after(chunk);
    serial_ = chunk->serial + 1;
    return chunk;
  }

 private:
  const SharedChunkLists& lists_;
  std::array<Chunk*, SharedChunkLists::kClasses> next_{};
  uint64_t serial_ = 0;  // below which all were looked at
};

}  // namespace

Status Backing::release_free(PoolLock* lock, uint64_t target, Retention::Cause cause, bool& blocked) {
  constexpr uint64_t kLooks = 1024;  // in vain, before others get a turn
  const uint64_t end = space_.serial;
  FreeChunks chunks(space_.free_chunks);
  for (uint64_t looked = 1; ledger_.used() > target && !retention_.keeps_all(cause); ++looked) {
    Chunk* chunk = chunks.next();
    if (chunk == nullptr || chunk->serial > end) return kSuccess;
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    const auto departure = retention_.release(*chunk, cause);
    const bool goes = departure.has_value();
    blocked = blocked || !goes;
    if (goes) {
      heap->claim_chunk(chunk);
      if (const Status status = release(*departure, chunk); status != kSuccess) return status;
    }
    if (lock != nullptr && (goes || looked % kLooks == 0) && lock->give_way()) chunks.find_again();
  }
  return kSuccess;
}

void Backing::release_all() noexcept {
  bool blocked = false;
  (void)release_in_hand(nullptr, 0, Retention::Cause::request, blocked);
  for (Region& region : space_.regions) release_region(region);
}

void Backing::release_region(Region& region) noexcept {
  for (size_t page = 0; page < region.pages.size();) {
    Chunk* chunk = region.pages[page];
    if (chunk == nullptr) {
      ++page;
      continue;
    }
    const size_t end = page + chunk->size / kGranule;
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    if (chunk->users == 0 && chunk->old_mappings == 0 && heap->state().order.passed(chunk->epoch) &&
        device_.unmap(Retention::of_end(), chunk->address, chunk->size) == kSuccess) {
      std::fill(region.pages.begin() + static_cast<ptrdiff_t>(page),
                region.pages.begin() + static_cast<ptrdiff_t>(end), nullptr);
      heap->claim_chunk(chunk);
      ledger_.detached(heap->group(), chunk->size);
      log_.unmapped(*heap, chunk->address, chunk->size);
      chunk->heap = nullptr;
      (void)release(Retention::of_end(), chunk);
    }
    page = end;
  }
}

}  // namespace gpupool::internal
