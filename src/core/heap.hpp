// SPDX-License-Identifier: Apache-2.0
// A heap: the address ranges of one stream and group of sizes, and which of them chunks back.
#pragma once

#include <array>
#include <list>
#include <string>
#include <vector>

#include "core/address_map.hpp"
#include "core/block.hpp"
#include "core/chunk.hpp"
#include "core/free_index.hpp"
#include "core/ladder.hpp"
#include "core/supply.hpp"

namespace gpupool {

/// A run of addresses, covered by ranges (Block records) in address order. `pages` says which chunk backs
/// each granule, as far up as anything was ever mapped. A segment is a region that one chunk backs for good.
struct Region {
  Address base = 0;
  uint64_t size = 0;
  bool is_segment = false;
  Block* first = nullptr;
  std::vector<Chunk*> pages;

  Address end() const noexcept { return base + size; }
  size_t page_of(Address address) const noexcept { return (address - base) / kGranule; }
  Address page_address(size_t page) const noexcept { return base + page * kGranule; }
  Chunk* chunk_at(size_t page) const noexcept { return page < pages.size() ? pages[page] : nullptr; }
};

/// Where a request that no hole fits should go: [start, end) in one region, all of it free.
struct Window {
  Region* region = nullptr;
  Address start = 0;
  Address end = 0;
};

/// Unbacked granules inside a window: size bytes at address must be backed, up to room bytes may be.
struct Gap {
  Address address = 0;
  uint64_t size = 0;
  uint64_t room = 0;
};

/// Pure bookkeeping: no lock, no driver. All of one heap belongs to one stream, so what is freed here can be
/// handed out here again at once; only chunks leave it, whole.
///
/// Promises (is_valid): ranges cover each region without gaps; neighbouring holes are merged, and so are
/// neighbouring bare ranges; holes and blocks lie on backed granules, bare and retired ranges on none;
/// a chunk's users are the blocks that touch it; free chunks, and only they, are in `free_chunks()`.
class Heap {
 public:
  Heap(Group group, BlockStore& store, AddressMap& map) : group_(group), store_(store), map_(map) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Group group() const noexcept { return group_; }

  // ---- blocks

  /// Cuts a live block of `size` (a multiple of kUnit) from the best fitting hole; null if none fits.
  /// Registers it in the address map. Throws std::bad_alloc before anything has changed.
  Block* take(uint64_t size, uint64_t alignment);

  /// Turns a block (live, cached or pending) into a hole. Chunks that become free are stamped with `epoch`
  /// and `age`. Never allocates.
  void give(Block* block, uint64_t epoch, uint64_t age) noexcept;

  // ---- memory

  /// Adds an empty region of addresses: one bare range.
  void add_region(Address base, uint64_t size);

  /// Adds a segment: a region wholly backed by chunk, which is free at first.
  void add_segment(Chunk* chunk, uint64_t epoch, uint64_t age);

  /// Takes away the region of a segment whose chunk is claimed.
  void remove_segment(Chunk* chunk) noexcept;

  /// Where a request that no hole fits could go: around the largest holes, and at bare addresses. Returns how
  /// many places there are; the last is the one with most room.
  static constexpr size_t kMaxWindows = 18;
  size_t plan(uint64_t size, uint64_t alignment, std::array<Window, kMaxWindows>& windows) const noexcept;

  /// The first unbacked part of a window at or after `from`; false when there is none.
  bool next_gap(const Window& window, Address from, Gap& gap) const noexcept;

  /// What backing a window would take, if `supply` is what may be taken and the rest is created.
  Cost cost(const Window& window, Supply supply, const Ladder& ladder, uint64_t block) const noexcept;

  /// Makes the next attach() and detach() safe. Throws std::bad_alloc.
  void prepare_attach(const Region* region, Address address, uint64_t size);

  /// Backs bare addresses with a chunk, which is free then.
  void attach(Region* region, Address address, Chunk* chunk, uint64_t epoch, uint64_t age) noexcept;

  /// Takes a free chunk out of `free_chunks()` while its move is under way, and puts it back.
  void claim(Chunk* chunk) noexcept { free_chunks_.remove(chunk); }
  void unclaim(Chunk* chunk) noexcept { free_chunks_.push(chunk); }

  /// The same for every free chunk that touches a window.
  void claim_window(const Window& window) noexcept;
  void unclaim_window(const Window& window) noexcept;

  /// Takes a claimed chunk from its addresses and returns them as a retired range. Needs two spare records.
  Block* detach(Chunk* chunk) noexcept;

  /// Sets bare addresses aside, because a mapping that could not be undone is there. As detach().
  Block* quarantine(Region* region, Address address, uint64_t size) noexcept;

  /// The old mapping of a retired range is gone: its addresses are bare again.
  void restore(Block* retired) noexcept;

  const ChunkLists& free_chunks() const noexcept { return free_chunks_; }

  /// Calls visit(chunk) for every chunk that backs this heap.
  template <typename Visit>
  void for_each_chunk(Visit visit) const {
    for (const Region& region : regions_) {
      Chunk* last = nullptr;
      for (Chunk* chunk : region.pages) {
        if (chunk == nullptr || chunk == last) continue;
        if (last != nullptr) visit(last);
        last = chunk;
      }
      if (last != nullptr) visit(last);
    }
  }

  // ---- numbers

  uint64_t reserved() const noexcept { return reserved_; }
  uint64_t chunk_count() const noexcept { return chunk_count_; }
  uint64_t hole_bytes() const noexcept { return holes_.bytes(); }
  uint64_t largest_hole() const noexcept;
  const std::list<Region>& regions() const noexcept { return regions_; }

  /// Re-derives every promise; says in `why` which one is broken. For tests, and for gpupool_validate.
  bool is_valid(std::string& why) const;

 private:
  /// Visits every chunk that touches [start, end), all of which is backed.
  template <typename Visit>
  static void for_chunks(const Region& region, Address start, Address end, Visit visit) noexcept {
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
  template <typename Visit>
  static void for_free_chunks(const Window& window, Visit visit) noexcept;
  Block* cut_front(Block* block, uint64_t size) noexcept;
  void link_after(Block* at, Block* added) noexcept;
  void unlink(Block* block) noexcept;
  void make_free(Block* block, State state) noexcept;
  FreeIndex& index_of_state(State state) noexcept { return state == State::hole ? holes_ : bare_; }
  Block* range_around(const Region& region, Address address) const noexcept;
  Block* isolate(Block* range, Address address, uint64_t size) noexcept;
  static bool extend(const Block* hole, uint64_t size, Window& window) noexcept;
  bool region_is_valid(const Region& region, std::string& why) const;

  Group group_;
  BlockStore& store_;
  AddressMap& map_;
  std::list<Region> regions_;
  FreeIndex holes_;
  FreeIndex bare_;
  ChunkLists free_chunks_;
  uint64_t reserved_ = 0;
  uint64_t chunk_count_ = 0;
};

}  // namespace gpupool
