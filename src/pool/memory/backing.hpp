// SPDX-License-Identifier: Apache-2.0
// Chunks behind addresses, by virtual memory management: creates, maps, moves, unmaps and releases them.
//
// Moving a chunk needs no wait. The pool maps it at its new addresses while the old mapping still exists.
// Work that was queued before may go on using the old mapping; stream order separates it from later work. The
// old mapping is removed once its stream has passed.
#pragma once

#include <vector>

#include "base/no_copy.hpp"
#include "core/chunk.hpp"
#include "core/space.hpp"
#include "pool/memory/pool_log.hpp"
#include "pool/memory/retention.hpp"
#include "pool/rules/ledger.hpp"
#include "pool/rules/metered_device.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// A chunk on its way to new addresses.
struct Piece {
  Chunk* chunk;
  StreamHeap* from;  // null: it was in hand, or is new
};

/// Addresses at which a chunk is still mapped though it has moved on: unmapped once their stream has passed.
struct OldMapping {
  StreamHeap* heap;
  Range* range;
  Chunk* chunk;
  uint64_t epoch;
  uint64_t capture;       // the capture whose graph may use it; 0: none
  bool away = false;      // the pool sleeps, and nothing can use the mapping
  bool unmapped = false;  // set only while it is away
};

/// Guarded by the pool's lock. A chunk that the device does not take back stays counted, and in hand.
class Backing : NoCopy {
 public:
  Backing(MeteredDevice& device, Ledger& ledger, Space& space, const Retention& retention,
          const PoolLog& log) noexcept
      : device_(device), ledger_(ledger), space_(space), retention_(retention), log_(log) {}

  /// Creates a chunk that backs nothing yet. OVER_LIMIT, or the driver's error. Throws std::bad_alloc.
  Status create(uint64_t size, Chunk*& chunk);
  /// Releases a chunk to the device: a claimed one, which it unmaps first, or one that was taken from hand.
  /// On failure the pool keeps the chunk.
  Status release(const Departure& departure, Chunk* chunk);

  /// Allocates the records for mapping and moving so many more chunks. Throws std::bad_alloc.
  void reserve(size_t chunks);
  /// Maps the pieces into a gap, one after another, and makes them accessible in one call. On failure no
  /// piece is used; a mapping that the driver refuses to undo becomes an old one. Needs reserve() and the
  /// heap's prepare_attach() first.
  Status map(const Gap& gap, const std::vector<Piece>& pieces, Region* region, StreamHeap& heap);
  /// Records that a mapped chunk now backs these addresses.
  void attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept;
  /// Detaches a claimed chunk, by now mapped elsewhere too, from its addresses. These become an old mapping,
  /// which a graph may use if `is_kept`.
  void move_away(Chunk* chunk, StreamHeap& from, bool is_kept) noexcept;
  /// Undoes the claims of pieces that are not used after all. A piece that backs nothing is then in hand.
  void unclaim(const std::vector<Piece>& pieces) noexcept;

  /// Removes the old mappings whose streams have passed, neighbouring ones in one call.
  void unmap_passed(Retention::Cause cause) noexcept;
  // The next two give way to other threads, unless `lock` is null.

  /// Releases chunks in hand that have no old mapping left, until at most `target` is reserved. Sets
  /// `blocked` if some have one.
  Status release_in_hand(PoolLock* lock, uint64_t target, Retention::Cause cause, bool& blocked);
  /// Releases free chunks that Retention lets go, in the order in which they became free.
  /// Looks once at each chunk that was free at the start.
  Status release_free(PoolLock* lock, uint64_t target, Retention::Cause cause, bool& blocked);
  /// At the pool's end: releases all chunks that no block touches and streams have passed. Allocates nothing,
  /// since nobody needs the ranges kept up to date any more.
  void release_all() noexcept;
  /// Whether a region has neither chunks nor old mappings, so that nothing keeps its addresses.
  bool is_unmapped(const Region& region) const noexcept;

  // Chunks that back nothing are in hand.

  uint64_t bytes_in_hand() const noexcept;
  /// The visitor may take the chunk from hand.
  template <typename Visit>
  void for_each_in_hand(Visit visit) const {
    Chunk* next = nullptr;
    for (Chunk* chunk = in_hand_.first(); chunk != nullptr; chunk = next) {
      next = ChunkList::after(chunk);
      visit(chunk);
    }
  }
  void take_from_hand(Chunk* chunk) noexcept { in_hand_.remove(chunk); }
  /// Takes the first chunk of at most `room` from hand; null if there is none.
  Chunk* take_from_hand(uint64_t room) noexcept;

  template <typename Visit>
  void for_each_old(Visit visit) {
    for (auto* entries : {&retired_, &kept_}) {
      for (OldMapping& entry : *entries) visit(entry);
    }
  }
  template <typename Predicate>
  void forget_old_if(Predicate predicate) {
    std::erase_if(retired_, predicate);
    std::erase_if(kept_, predicate);
  }

 private:
  Range* detach(Chunk* chunk) noexcept;
  void unmap_passed(std::vector<OldMapping>& entries, Retention::Cause cause) noexcept;
  void release_region(Region& region) noexcept;

  MeteredDevice& device_;
  Ledger& ledger_;
  Space& space_;
  const Retention& retention_;
  const PoolLog& log_;
  std::vector<OldMapping> retired_;
  std::vector<OldMapping> kept_;  // those that graphs may use
  ChunkList in_hand_;
};

}  // namespace gpupool::internal
