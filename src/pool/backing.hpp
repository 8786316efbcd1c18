// SPDX-License-Identifier: Apache-2.0
// Chunks behind addresses, by virtual memory management: created, mapped, moved, unmapped, released.
//
// Moving a chunk needs no wait. It is mapped at its new addresses while its old mapping is still there; work
// queued before may go on using the old one, and stream order keeps it apart from what comes. The old mapping
// is removed once its stream has passed.
#pragma once

#include <vector>

#include "core/chunk.hpp"
#include "core/space.hpp"
#include "pool/ledger.hpp"
#include "pool/metered_device.hpp"
#include "pool/narrator.hpp"
#include "pool/quiet_lock.hpp"
#include "pool/streams.hpp"

namespace gpupool::internal {

/// A chunk on its way to addresses.
struct Piece {
  Chunk* chunk;
  StreamHeap* from;  // null: from hand, or new
};

/// An address range of a chunk that has moved on: unmapped once its stream has passed.
struct OldMapping {
  StreamHeap* heap;
  Range* range;
  Chunk* chunk;
  uint64_t epoch;
  uint64_t capture;       // whose graph may use it; 0: none
  bool away = false;      // the pool sleeps: it cannot be used now
  bool unmapped = false;  // of one that is away
};

/// Guarded by the pool's lock. A chunk that fails to be released is counted, and in hand, until it can be.
class Backing {
 public:
  Backing(MeteredDevice& device, Ledger& ledger, Space& space, Streams& streams,
          const Narrator& narrator) noexcept
      : device_(device), ledger_(ledger), space_(space), streams_(streams), narrator_(narrator) {}
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  /// Deletes the records of chunks in hand. What the device has of them is its own by now.

  /// A new chunk that backs nothing. OVER_LIMIT, or what the driver says. Throws std::bad_alloc.
  Status create(uint64_t size, Chunk*& chunk);
  /// Unmaps a claimed chunk, or takes one that was in hand, and releases it to the device. On failure it
  /// stays the pool's.
  Status release(Chunk* chunk);

  /// Room for so many more chunks to be mapped and moved without asking for memory. Throws std::bad_alloc.
  void reserve(size_t chunks);
  /// Maps the pieces at a gap, one behind the other, and makes them accessible in one call. On failure
  /// nothing of them is used; what the driver does not take back is an old mapping. Needs reserve(), and the
  /// heap's prepare_attach().
  Status map(const Gap& gap, const std::vector<Piece>& pieces, Region* region, StreamHeap& heap);
  /// A mapped chunk now backs these addresses.
  void attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept;
  /// A claimed chunk that is mapped elsewhere too leaves its addresses, which become an old mapping: one that
  /// a graph may use if `is_kept`.
  void move_away(Chunk* chunk, StreamHeap& from, bool is_kept) noexcept;
  /// Pieces that are not used after all: back to where they are, or into the hand.
  void unclaim(const std::vector<Piece>& pieces) noexcept;

  /// Removes the old mappings whose streams have passed, neighbours in one call.
  void unmap_passed() noexcept;
  // With a lock, these give way to other threads; with null they do not.

  /// Releases chunks in hand that have no old mapping left until no more than `target` is reserved;
  /// `blocked`: some have one.
  Status release_in_hand(QuietLock* lock, uint64_t target, bool& blocked);
  /// Releases free chunks, those first that became free first, if they are idle and have no old mapping left.
  /// Each is looked at once, of those that were free at first.
  Status release_free(QuietLock* lock, uint64_t target, bool& blocked);
  /// The pool's end: releases all that no block is in and streams have passed. Needs no memory, since nobody
  /// asks for ranges any more.
  void release_all() noexcept;
  /// Whether nothing keeps a region's addresses: no chunk, and no old mapping.
  bool is_unmapped(const Region& region) const noexcept;

  // Chunks that back nothing are in hand.

  uint64_t bytes_in_hand() const noexcept;
  /// The visitor may take the chunk out.
  template <typename Visit>
  void for_each_in_hand(Visit visit) const {
    Chunk* next = nullptr;
    for (Chunk* chunk = in_hand_.first(); chunk != nullptr; chunk = next) {
      next = ChunkList::after(chunk);
      visit(chunk);
    }
  }
  void take_from_hand(Chunk* chunk) noexcept { in_hand_.remove(chunk); }
  /// The first chunk in hand of at most `room`, taken out of it; null if there is none.
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
  void unmap_passed(std::vector<OldMapping>& entries) noexcept;
  void release_region(Region& region) noexcept;

  MeteredDevice& device_;
  Ledger& ledger_;
  Space& space_;
  Streams& streams_;
  const Narrator& narrator_;
  std::vector<OldMapping> retired_;
  std::vector<OldMapping> kept_;  // those that graphs may use
  ChunkList in_hand_;
};

}  // namespace gpupool::internal
