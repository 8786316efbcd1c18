// SPDX-License-Identifier: Apache-2.0
// A heap: the address ranges of one stream and group of sizes, and which of them chunks back.
#pragma once

#include <array>
#include <string>

#include "core/chunk_sizer.hpp"
#include "core/free_index.hpp"
#include "core/space.hpp"
#include "core/supply.hpp"

namespace gpupool::internal {

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
/// handed out here again at once; only chunks leave it, whole: to other addresses, or where they are.
///
/// Promises (is_valid): its holes and bare ranges, and only they, are in its indexes; its free chunks, and
/// only they, are in `free_chunks()`; reserved() is what backs it.
class Heap {
 public:
  Heap(Group group, Space& space) : group_(group), space_(space) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Group group() const noexcept { return group_; }

  // ---- blocks

  /// Cuts a live block of `size` (a multiple of kUnit) from the best fitting hole; null if none fits, or if
  /// without `exhaustive` none is found.
  /// Registers it in the address map. Throws std::bad_alloc before anything has changed.
  Range* take(uint64_t size, uint64_t alignment, bool exhaustive = false);

  /// Turns a block (live, cached or pending) into a hole. Chunks that become free are stamped with `epoch`.
  /// Never allocates.
  void give(Range* block, uint64_t epoch) noexcept;

  // ---- memory

  /// Adds an empty region of addresses: one bare range.
  void add_region(Address base, uint64_t size);

  /// Adds a segment: a region wholly backed by chunk, which is free at first. Throws std::bad_alloc before
  /// anything has changed.
  void add_segment(Chunk* chunk, uint64_t epoch);

  /// Takes a free segment out of heap and space while it is given back, with its region and range in `aside`;
  /// and takes it in again where that failed. Neither allocates.
  using Aside = std::list<Region>;
  void take_out_segment(Chunk* chunk, Aside& aside) noexcept;
  void take_in_segment(Chunk* chunk, Aside& aside) noexcept;

  /// Where a request that no hole fits could go: around the largest holes, and at bare addresses. Returns how
  /// many places there are; the last is the one with most room.
  static constexpr size_t kMaxWindows = policy::kPlaces + 2;
  size_t plan(uint64_t size, uint64_t alignment, std::array<Window, kMaxWindows>& windows) const noexcept;

  /// The first unbacked part of a window at or after `from`; false when there is none.
  bool next_gap(const Window& window, Address from, Gap& gap) const noexcept;

  /// What backing a window would take, if `supply` is what may be taken and the rest is created.
  Cost cost(const Window& window, Supply supply, const ChunkSizer& sizer, uint64_t block) const noexcept;

  /// Makes the next attach() and detach() safe. Throws std::bad_alloc.
  void prepare_attach(Region* region, Address address, uint64_t size);

  /// Backs bare addresses with a chunk, which is free then.
  void attach(Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept;

  /// Takes a free chunk out of `free_chunks()` while its move is under way, and puts it back.
  void claim(Chunk* chunk) noexcept {
    free_chunks_.remove(chunk);
    if (shares_) space_.free_chunks.remove(chunk);
  }
  void unclaim(Chunk* chunk) noexcept {
    free_chunks_.push(chunk);
    if (shares_) space_.free_chunks.push(chunk);
  }

  /// Whether its free chunks are among those of the space, where others find them. Heaps share at first.
  bool shares() const noexcept { return shares_; }
  void set_shares(bool shares) noexcept;

  /// The same for every free chunk that touches a window.
  void claim_window(const Window& window) noexcept;
  void unclaim_window(const Window& window) noexcept;

  /// Takes a claimed chunk from its addresses and returns them as a retired range. Needs two spare records.
  Range* detach(Chunk* chunk) noexcept;

  /// Makes one record of `count` neighbours that are asleep and touched by one block alone: the others are
  /// part of the first from here on, and the caller's to delete.
  void merge(Chunk* const* chunks, size_t count) noexcept;

  /// Sets bare addresses aside, because a mapping that could not be undone is there. As detach().
  Range* quarantine(Region* region, Address address, uint64_t size) noexcept;

  /// The old mapping of a retired range is gone: its addresses are bare again.
  static void restore(Range* retired) noexcept;

  const ChunkLists& free_chunks() const noexcept { return free_chunks_; }

  /// The run of free chunks that lies in one hole, holds a block of `size` and is the smallest such; false if
  /// there is none. Looks at a few holes only.
  bool find_run(uint64_t size, Window& run) const noexcept;

  /// Gives a run of free chunks to another heap, mapped as they are. Needs two spare records.
  void hand_over(const Window& run, Heap& to) noexcept;

  // ---- numbers

  uint64_t reserved() const noexcept { return reserved_; }
  uint64_t chunk_count() const noexcept { return chunk_count_; }
  uint64_t hole_bytes() const noexcept { return holes_.bytes(); }
  /// Within 1/32.
  uint64_t largest_hole() const noexcept;
  /// Whether any block, live, cached or pending, is in it.
  bool has_blocks() const noexcept { return reserved_ != free_chunks_.bytes(); }

  /// Re-derives every promise; says in `why` which one is broken. For tests, and for gpupool_validate, beside
  /// Space::is_valid().
  bool is_valid(std::string& why) const;

 private:
  template <typename Visit>
  static void for_free_chunks(const Window& window, Visit visit) noexcept;
  Range* cut_front(FreeIndex& index, Range* range, uint64_t size) noexcept;
  void unlink(Range* block) noexcept;
  void make_free(Range* block, State state) noexcept;
  FreeIndex& index_of_state(State state) noexcept { return state == State::hole ? holes_ : bare_; }
  Range* range_around(const Region& region, Address address) const noexcept;
  Range* isolate(Range* range, Address address, uint64_t size) noexcept;
  static bool extend(const Range* hole, uint64_t size, Window& window) noexcept;

  Group group_;
  bool shares_ = true;
  Space& space_;
  FreeIndex holes_;
  FreeIndex bare_;
  ChunkLists free_chunks_;
  uint64_t reserved_ = 0;
  uint64_t chunk_count_ = 0;
};

}  // namespace gpupool::internal
