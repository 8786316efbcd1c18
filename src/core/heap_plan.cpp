// SPDX-License-Identifier: Apache-2.0
// Where to put a request that no hole fits.
#include <algorithm>

#include "core/heap.hpp"

namespace gpupool {
namespace {

/// Holes that plan() looks at, from the largest: more are rarely better, and each is a walk.
constexpr int kCandidates = 16;

bool is_free(const Block* block) noexcept {
  return block != nullptr && (block->is(State::hole) || block->is(State::bare));
}

}  // namespace

/// A window of `size` bytes that begins with `hole`, or, where the way up is blocked, ends with it.
/// `backed` counts the bytes of it that need no driver call.
bool Heap::extend(const Block* hole, uint64_t size, Window& window, uint64_t& backed) const noexcept {
  uint64_t total = 0;
  backed = 0;
  for (const Block* at = hole; is_free(at) && total < size; at = at->next) {
    if (at->is(State::hole)) backed += std::min(at->size, size - total);
    total += at->size;
  }
  Address start = hole->address;
  if (total < size) {
    const Block* below = hole->prev;
    if (below == nullptr || !below->is(State::bare) || below->size < size - total) return false;
    start = align_down(hole->address - (size - total), kUnit);
  }
  window = {hole->region, start, start + size};
  return true;
}

bool Heap::plan(uint64_t size, uint64_t alignment, bool fresh, Window& window) const noexcept {
  // Alignment is rare and small; leaving room for it anywhere in the window is simplest.
  const uint64_t need = size + alignment - kUnit;
  uint64_t best = 0;
  if (!fresh) {
    int tried = 0;
    for (const Block* hole = holes_.largest(); hole != nullptr && tried < kCandidates;
         hole = holes_.next_smaller(hole), ++tried) {
      Window candidate;
      uint64_t backed = 0;
      if (hole->size > best && extend(hole, need, candidate, backed) && backed > best) {
        best = backed;
        window = candidate;
      }
    }
    if (best > 0) return true;
  }
  const Block* bare = fresh ? bare_.largest() : bare_.find(need);
  if (bare == nullptr || bare->size < need) return false;
  window = {bare->region, bare->address, bare->address + need};
  return true;
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
  for_free_chunks(window, [this](Chunk* chunk) { claim(chunk); });
}

void Heap::unclaim_window(const Window& window) noexcept {
  for_free_chunks(window, [this](Chunk* chunk) { unclaim(chunk); });
}

bool Heap::next_gap(const Window& window, Gap& gap) const noexcept {
  const Region& region = *window.region;
  const size_t last = region.page_of(window.end - 1);
  size_t page = region.page_of(window.start);
  while (page <= last) {
    const Chunk* chunk = region.chunk_at(page);
    if (chunk == nullptr) break;
    page = region.page_of(chunk->end());
  }
  if (page > last) return false;
  gap.address = region.page_address(page);
  const Block* range = range_around(region, gap.address);
  gap.room = range->end() - gap.address;
  gap.size = std::min(gap.room, align_up(window.end - gap.address, kGranule));
  return true;
}

}  // namespace gpupool
