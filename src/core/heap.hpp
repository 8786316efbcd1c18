// SPDX-License-Identifier: Apache-2.0
// A heap: the address ranges of one stream and group of sizes, and which of them chunks back.
#pragma once

#include <array>
#include <string>
#include <unordered_map>

#include "base/no_copy.hpp"
#include "core/chunk_sizer.hpp"
#include "core/free_index.hpp"
#include "core/space.hpp"
#include "core/supply.hpp"

namespace gpupool::internal {

/// A place for a request that no hole fits: [start, end) in one region, all of it free.
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

/// Pure bookkeeping: no lock, no driver. A heap belongs to one stream, so memory freed here can be allocated
/// here again at once; only whole chunks leave it, to other addresses or in place.
///
/// Invariants (is_valid): exactly its holes and bare ranges are in its indexes; exactly its free chunks are
/// in `free_chunks()`; reserved() is the memory that backs it.
class Heap : NoCopy {
 public:
  Heap(SizeGroup group, Space& space) : group_(group), space_(space) {}

  SizeGroup group() const noexcept { return group_; }

  // ---- blocks

  /// Cuts a live block of `size` (a multiple of kUnit) from the best fitting hole; null if none fits, or if
  /// without `exhaustive` none is found.
  /// Registers it in the address map. Throws std::bad_alloc before anything has changed.
  Range* allocate(uint64_t size, uint64_t alignment, bool exhaustive = false);

  /// As allocate, a block that begins at `address`; null if no hole has room for it there.
  Range* allocate_at(Address address, uint64_t size);

  /// Turns a block (live, cached or pending) into a hole. Chunks that become free are stamped with `epoch`.
  /// Never allocates.
  void free(Range* block, uint64_t epoch) noexcept;

  /// The same for a block in the middle of a list: its record stays there, unused, until whoever comes to it
  /// recycles it. Returns the hole. Needs a spare record; if the range before is a hole of the heap, it gives
  /// one back.
  Range* free_listed(Range* block, uint64_t epoch) noexcept;

  // ---- memory

  /// Adds an empty region of addresses: one bare range.
  void add_region(Address base, uint64_t size);

  /// Adds a segment: a region wholly backed by chunk, which is free at first. Throws std::bad_alloc before
  /// anything has changed.
  void add_segment(Chunk* chunk, uint64_t epoch);

  /// Removes a free segment from heap and space while it is being released, with its region and range in
  /// `aside`; inserts it again if the release failed. Neither allocates.
  using Aside = std::list<Region>;
  void remove_segment(Chunk* chunk, Aside& aside) noexcept;
  void insert_segment(Chunk* chunk, Aside& aside) noexcept;

  /// Adds a fence: a region of `size` bytes at `base`, of which `chunk` backs the first, with a live block of
  /// `bytes` at the end of these, as far as the alignment lets it. Throws std::bad_alloc before anything has
  /// changed.
  Range* add_fence(Address base, uint64_t size, Chunk* chunk, uint64_t bytes, uint64_t alignment);
  /// Removes the fence of a chunk, with the records of its block; the caller then owns the chunk.
  void remove_fence(Chunk* chunk) noexcept;

  /// Places for a request that no hole fits: around the largest holes, and at bare addresses. Returns how
  /// many there are; the last has the most room.
  static constexpr size_t kMaxWindows = policy::kPlaces + 2;
  size_t find_windows(uint64_t size, uint64_t alignment,
                      std::array<Window, kMaxWindows>& windows) const noexcept;

  /// The place at `address`; false if not all of it is free, and this heap's.
  bool find_window(Address address, uint64_t size, Window& window) const noexcept;

  /// Where the first of many blocks can begin that are to lie behind each other: a hole that others have
  /// left, the start of a region that is all bare, or the middle of the largest bare range. False if less
  /// than `least` is free from there on.
  bool find_room(uint64_t least, Address& address) const noexcept;

  /// The first unbacked part of a window at or after `from`; false when there is none.
  bool next_gap(const Window& window, Address from, Gap& gap) const noexcept;

  /// The cost of backing a window, if `supply` may be taken and the rest is created.
  Cost cost(const Window& window, Supply supply, const ChunkSizer& sizer, uint64_t block) const noexcept;

  /// Makes the next attach() and detach() safe. Throws std::bad_alloc.
  void prepare_attach(Region* region, Address address, uint64_t size);

  /// Backs bare addresses with a chunk, which is then free.
  void attach(Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept;

  /// Removes a free chunk from `free_chunks()` during its move, and inserts it again.
  void claim_chunk(Chunk* chunk) noexcept {
    free_chunks_.remove(chunk);
    if (shares_) space_.free_chunks.remove(chunk);
  }
  void unclaim_chunk(Chunk* chunk) noexcept {
    free_chunks_.push(chunk);
    if (shares_) space_.free_chunks.push(chunk);
  }

  /// Whether its free chunks are among the space's, where others find them. Initially they are.
  bool shares() const noexcept { return shares_; }
  void set_shares(bool shares) noexcept;

  /// The same for every free chunk that touches a window.
  void claim_window(const Window& window) noexcept;
  void unclaim_window(const Window& window) noexcept;

  /// Takes a claimed chunk from its addresses and returns them as a retired range. Needs two spare records.
  Range* detach(Chunk* chunk) noexcept;

  /// Merges `count` neighbouring chunks that are asleep and touched by only one block into one record: the
  /// first. The caller deletes the others.
  void merge_chunks(Chunk* const* chunks, size_t count) noexcept;

  /// Retires bare addresses that still have a mapping which could not be undone. As detach().
  Range* retire_bare(Region* region, Address address, uint64_t size) noexcept;

  /// The old mapping of a retired range is gone: its addresses are bare again.
  static void reuse_retired(Range* retired) noexcept;

  const ChunkLists& free_chunks() const noexcept { return free_chunks_; }

  /// The smallest run of free chunks in one hole that can hold a block of `size`; false if there is none.
  /// Looks at only a few holes.
  bool find_run(uint64_t size, Window& run) const noexcept;

  /// A free chunk in one of the largest holes, or null.
  const Chunk* free_chunk_of_largest_hole() const noexcept;

  /// Moves a run of free chunks to another heap, which steals it, without remapping. `epoch` of the other's
  /// stream comes after their last use; 0: that is over. Needs two spare records.
  void move_run(const Window& run, Heap& to, uint64_t epoch) noexcept;

  // ---- numbers

  uint64_t reserved() const noexcept { return reserved_; }
  uint64_t hole_bytes() const noexcept { return holes_.bytes(); }
  /// Within 1/32.
  uint64_t largest_hole() const noexcept;
  /// Whether it contains any block, live, cached or pending.
  bool has_blocks() const noexcept { return reserved_ != free_chunks_.bytes(); }

  /// What a walk over all regions finds of a heap, so that one walk does for all heaps.
  struct Holding {
    uint64_t reserved = 0;
    uint64_t free_bytes = 0;  // in chunks
    size_t chunks = 0;
    size_t ranges = 0;  // that are free
  };
  using Census = std::unordered_map<const Heap*, Holding>;

  /// Re-derives every invariant; `why` names the broken one. For tests and gpupool_validate, together with
  /// Space::is_valid(). Throws std::bad_alloc.
  bool is_valid(std::string& why) const;
  /// The same in two steps, of which the first is for all heaps.
  static bool count(const Space& space, Census& found, std::string& why);
  bool is_valid(const Census& found, std::string& why) const;

 private:
  template <typename Visit>
  static void for_free_chunks(const Window& window, Visit visit) noexcept;
  Range* cut_front(FreeIndex& index, Range* range, uint64_t size) noexcept;
  Range* cut_block(Range* hole, Address start, uint64_t size);
  void unlink(Range* block) noexcept;
  void unregister(const Range* block, uint64_t epoch) noexcept;
  Range* make_free(Range* block, State state) noexcept;
  FreeIndex& index_of_state(State state) noexcept { return state == State::hole ? holes_ : bare_; }
  Region& open_region(Address base, uint64_t size, std::vector<Chunk*> pages);
  Range* append(Region& region, Range* last, Address end, Tag tag) noexcept;
  Range* range_around(const Region& region, Address address) const noexcept;
  Range* range_at(Address address) const noexcept;
  Range* isolate(Range* range, Address address, uint64_t size) noexcept;
  static bool extend(const Range* hole, uint64_t size, Window& window) noexcept;

  SizeGroup group_;
  bool shares_ = true;
  Space& space_;
  FreeIndex holes_;
  FreeIndex bare_;
  ChunkLists free_chunks_;
  uint64_t reserved_ = 0;
  uint64_t chunk_count_ = 0;
};

}  // namespace gpupool::internal
