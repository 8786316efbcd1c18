// SPDX-License-Identifier: Apache-2.0
// What all heaps of a pool share: regions of addresses, which chunk backs what, and where blocks start.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <vector>

#include "core/address_map.hpp"
#include "core/chunk.hpp"
#include "core/range.hpp"

namespace gpupool::internal {

/// How often a chunk of any pool became free or was taken, so that pools can be compared too.
inline constinit std::atomic<uint64_t> chunk_events{0};

/// A run of addresses, covered by ranges (Range records) in address order. `pages` says which chunk backs
/// each granule, up to the highest ever mapped. A segment is a region that one chunk backs for good.
struct Region {
  Address base = 0;
  uint64_t size = 0;
  Heap* home = nullptr;  // the heap that owns its bare ranges
  bool is_segment = false;
  bool is_fence = false;  // one block, one chunk, and addresses behind it that nothing will ever back
  Range* first = nullptr;
  std::vector<Chunk*> pages;
  std::list<Region>::iterator self;  // in the space's list

  Address end() const noexcept { return base + size; }
  size_t page_of(Address address) const noexcept { return (address - base) / kGranule; }
  Address page_address(size_t page) const noexcept { return base + page * kGranule; }
  Chunk* chunk_at(size_t page) const noexcept { return page < pages.size() ? pages[page] : nullptr; }
};

/// Ranges of a region may belong to different heaps, because chunks are stolen in place.
///
/// Invariants (is_valid): ranges cover each region without gaps; neighbouring holes of one heap are merged,
/// and so are its neighbouring bare ranges; holes and blocks lie on backed granules, bare and retired ranges
/// on none; a chunk's users are the blocks that touch it, and all ranges that touch it belong to its heap. A
/// fence has one block, and retired ranges around it.
struct Space {
  RangeStore store;
  ChunkStore chunks;
  AddressMap map;
  std::list<Region> regions;
  SharedChunkLists free_chunks;  // of all heaps that share theirs
  uint64_t serial = 0;           // of the last such event here

  /// Numbers the next moment at which a chunk becomes free or is taken.
  uint64_t next_serial() noexcept {
    return serial = chunk_events.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  /// Re-derives every invariant; `why` names the broken one.
  bool is_valid(std::string& why) const;
};

/// Calls visit(chunk) for every chunk that backs a region.
template <typename Visit>
void for_each_chunk(const Region& region, Visit visit) {
  Chunk* last = nullptr;
  for (Chunk* chunk : region.pages) {
    if (chunk == nullptr || chunk == last) continue;
    if (last != nullptr) visit(last);
    last = chunk;
  }
  if (last != nullptr) visit(last);
}

/// Calls visit(chunk) for every chunk that touches [start, end), all of which is backed.
template <typename Visit>
void for_chunks(const Region& region, Address start, Address end, Visit visit) {
  if (region.is_segment) {
    visit(region.pages.front());
    return;
  }
  for (Address at = start; at < end;) {
    Chunk* chunk = region.pages[region.page_of(at)];
    at = chunk->end();
    visit(chunk);
  }
}

/// Whether memory of a block is asleep.
inline bool has_asleep(const Range& block) noexcept {
  bool asleep = false;
  for_chunks(*block.region, block.address, block.end(),
             [&](const Chunk* chunk) { asleep = asleep || chunk->asleep; });
  return asleep;
}

}  // namespace gpupool::internal
