// SPDX-License-Identifier: Apache-2.0
// Where to put a request that no hole fits.
#include <algorithm>

#include "core/heap.hpp"

namespace gpupool::internal {
namespace {

bool is_free_in(const Heap* heap, const Range* block) noexcept {
  return block != nullptr && block->heap == heap && (block->is(State::hole) || block->is(State::bare));
}

}  // namespace

/// A window of `size` bytes that ends with `hole`, or else begins with it. Downwards first: bare addresses
/// below a hole have mostly been used before, and a heap that always grew upwards would always need new
/// records.
bool Heap::extend(const Range* hole, uint64_t size, Window& window) noexcept {
  const Range* under = hole->prev;
  const uint64_t missing = size - std::min(size, hole->size);
  if (missing != 0 && is_free_in(hole->heap, under) && under->is(State::bare) && under->size >= missing) {
    window = {hole->region, hole->address - missing, hole->end()};
    return true;
  }
  uint64_t total = 0;
  for (const Range* at = hole; is_free_in(hole->heap, at) && total < size; at = at->next) total += at->size;
  Address start = hole->address;
  if (total < size) {
    const Range* below = hole->prev;
    if (!is_free_in(hole->heap, below) || !below->is(State::bare) || below->size < size - total) return false;
    start -= size - total;
  }
  window = {hole->region, start, start + size};
  return true;
}

size_t Heap::find_windows(uint64_t size, uint64_t alignment,
                          std::array<Window, kMaxWindows>& windows) const noexcept {
  // Alignment is rare and small; leaving room for it anywhere in the window is simplest.
  const uint64_t need = size + alignment - kUnit;
  size_t count = 0;
  int tried = 0;
  for (const Range* hole = holes_.top_bin(); hole != nullptr && tried < policy::kPlaces;
       hole = holes_.walk_down(hole), ++tried) {
    if (extend(hole, need, windows[count])) ++count;
  }
  for (const Range* bare : {bare_.find(need), bare_.top_bin()}) {
    if (bare == nullptr || bare->size < need) continue;
    windows[count++] = {bare->region, bare->address, bare->address + need};
  }
  return count;
}

bool Heap::find_window(Address address, uint64_t size, Window& window) const noexcept {
  const Range* first = range_at(address);
  if (first == nullptr || first->region->end() - address < size) return false;
  for (const Range* at = first; at != nullptr && at->address < address + size; at = at->next) {
    if (!is_free_in(this, at)) return false;
  }
  window = {first->region, address, address + size};
  return true;
}

bool Heap::find_room(uint64_t least, Address& address) const noexcept {
  int tried = 0;
  for (const Range* hole = holes_.top_bin(); hole != nullptr && tried < policy::kPlaces;
       hole = holes_.walk_down(hole), ++tried) {
    if (hole->prev != nullptr && !is_free_in(this, hole->prev)) continue;  // another may go on there
    address = hole->address;
    const bool goes_on = is_free_in(this, hole->next);
    if ((goes_on ? hole->next->end() : hole->end()) - address >= least) return true;
  }
  const Range* bare = bare_.top_bin();
  if (bare == nullptr) return false;
  const bool is_whole = bare->size == bare->region->size;
  address = is_whole ? bare->address : align_up(bare->address + bare->size / 2, kGranule);
  return address < bare->end() && bare->end() - address >= least;
}

Cost Heap::cost(const Window& window, Supply supply, const ChunkSizer& sizer, uint64_t block) const noexcept {
  for_free_chunks(window, [&](const Chunk* chunk) { supply.remove(chunk->size); });
  Cost cost;
  Gap gap;
  for (Address from = window.start; next_gap(window, from, gap); from = gap.address + gap.size) {
    for (uint64_t covered = 0; covered < gap.size; ++cost.chunks) {
      const uint64_t need = gap.size - covered;
      const uint64_t room = gap.room - covered;
      const size_t size_class = supply.pick(need, room);
      if (size_class != Supply::kNone) {
        supply.remove_class(size_class);
        covered += Supply::size_of(size_class);
      } else {
        const uint64_t size = sizer.chunk_size(reserved_ + cost.created, block, need, room);
        cost.created += size;
        covered += size;
      }
    }
  }
  return cost;
}

template <typename Visit>
void Heap::for_free_chunks(const Window& window, Visit visit) noexcept {
  const Region& region = *window.region;
  const size_t last = region.page_of(window.end - 1);
  for (size_t page = region.page_of(window.start); page <= last;) {
    Chunk* chunk = region.chunk_at(page);
    page = chunk != nullptr ? region.page_of(chunk->end()) : page + 1;
    if (chunk != nullptr && chunk->users == 0) visit(chunk);
  }
}

void Heap::claim_window(const Window& window) noexcept {
  for_free_chunks(window, [this](Chunk* chunk) { claim_chunk(chunk); });
}

void Heap::unclaim_window(const Window& window) noexcept {
  for_free_chunks(window, [this](Chunk* chunk) { unclaim_chunk(chunk); });
}

bool Heap::next_gap(const Window& window, Address from, Gap& gap) const noexcept {
  const Region& region = *window.region;
  const size_t last = region.page_of(window.end - 1);
  if (from >= window.end) return false;
  size_t page = region.page_of(from);
  while (page <= last) {
    const Chunk* chunk = region.chunk_at(page);
    if (chunk == nullptr) break;
    page = region.page_of(chunk->end());
  }
  if (page > last) return false;
  gap.address = region.page_address(page);
  const Range* range = range_around(region, gap.address);
  gap.room = range->end() - gap.address;
  gap.size = std::min(gap.room, align_up(window.end - gap.address, kGranule));
  return true;
}

bool Heap::find_run(uint64_t size, Window& run) const noexcept {
  uint64_t least = ~uint64_t{0};
  int tried = 0;
  for (Range* hole = holes_.find(size); hole != nullptr && tried < policy::kPlaces;
       hole = hole->link, ++tried) {
    // A hole can share chunks with blocks only at its ends.
    const Region& region = *hole->region;
    Window found{hole->region, 0, 0};
    for (Address at = hole->address; at < hole->end() && found.end - found.start < size;) {
      const Chunk* chunk = region.chunk_at(region.is_segment ? 0 : region.page_of(at));
      at = chunk->end();
      if (chunk->users != 0) continue;
      if (found.start == 0) found.start = chunk->address;
      found.end = chunk->end();
    }
    const uint64_t total = found.end - found.start;
    if (total < size || total >= least) continue;
    least = total;
    run = found;
  }
  return least != ~uint64_t{0};
}

const Chunk* Heap::free_chunk_of_largest_hole() const noexcept {
  const Range* hole = holes_.top_bin();
  if (hole == nullptr) return nullptr;
  const Region& region = *hole->region;
  const Chunk* last = region.chunk_at(region.is_segment ? 0 : region.page_of(hole->end() - 1));
  if (last->users == 0) return last;
  if (last->address <= hole->address) return nullptr;
  const Chunk* before = region.chunk_at(region.page_of(last->address) - 1);
  return before->users == 0 ? before : nullptr;
}

}  // namespace gpupool::internal
