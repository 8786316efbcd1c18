// SPDX-License-Identifier: Apache-2.0
// Blocks with their own mapping and nothing behind it, to find accesses beyond the end and after the free.
#include "core/heap.hpp"

namespace gpupool::internal {

Range* Heap::add_fence(Address base, uint64_t size, Chunk* chunk, uint64_t bytes, uint64_t alignment) {
  const Address end = base + chunk->size;
  const Address start = align_down(end - bytes, alignment);
  space_.store.reserve(3);
  space_.map.prepare(start);
  std::vector<Chunk*> pages(chunk->size / kGranule, chunk);
  Region& region = open_region(base, size, std::move(pages));
  region.is_fence = true;
  chunk->address = base;
  chunk->heap = this;
  chunk->region = &region;
  chunk->users = 1;
  // The rest of the region, backed or not, is unused and must stay so.
  Range* last = nullptr;
  if (start != base) last = append(region, last, start, Tag::of(State::retired));
  Range* block = last = append(region, last, start + bytes, Tag::of_new_block());
  if (last->end() != region.end()) append(region, last, region.end(), Tag::of(State::retired));
  space_.map.insert(block);
  reserved_ += chunk->size;
  ++chunk_count_;
  return block;
}

void Heap::remove_fence(Chunk* chunk) noexcept {
  Region& region = *chunk->region;
  for (Range* range = region.first; range != nullptr;) {
    Range* next = range->next;
    if (!range->is(State::retired)) space_.map.erase(range);
    space_.store.recycle(range);
    range = next;
  }
  reserved_ -= chunk->size;
  --chunk_count_;
  chunk->address = 0;
  chunk->heap = nullptr;
  chunk->region = nullptr;
  space_.regions.erase(region.self);
}

}  // namespace gpupool::internal
