// SPDX-License-Identifier: Apache-2.0
// Re-derives every invariant of a heap.
#include <cinttypes>
#include <cstdio>

#include "core/heap.hpp"

namespace gpupool::internal {
namespace {

bool broken(std::string& why, const char* what, Address address) {
  char text[160];
  std::snprintf(text, sizeof text, "%s at 0x%" PRIx64, what, address);
  why = text;
  return false;
}

bool is_free(const Range* block) {
  return block->is(State::hole) || block->is(State::bare);
}

bool is_block(const Range* block) {
  return block->is(State::live) || block->is(State::cached) || block->is(State::pending);
}

bool range_is_valid(const Region& region, const Range* block, const AddressMap& map, std::string& why) {
  const Range* prev = block->prev;
  if (is_free(block) && prev != nullptr && prev->heap == block->heap && prev->state() == block->state())
    return broken(why, "holes not merged", block->address);
  if (is_block(block) != (map.find(block->address) == block))
    return broken(why, "address map differs", block->address);
  if (block->is(State::bare) && block->heap != region.home)
    return broken(why, "bare range away from home", block->address);
  const bool backed = is_block(block) || block->is(State::hole);
  if (region.is_fence)
    return is_block(block) || block->is(State::retired) ||
           broken(why, "free range in a fence", block->address);
  if (region.is_segment) return backed || broken(why, "part of a segment is not backed", block->address);
  const size_t last = region.page_of(block->end() - 1);
  for (size_t page = region.page_of(block->address); page <= last; ++page) {
    const Chunk* chunk = region.chunk_at(page);
    if ((chunk != nullptr) != backed) return broken(why, "backing differs", block->address);
    if (chunk != nullptr && chunk->heap != block->heap)
      return broken(why, "chunk of another heap", block->address);
    if (!backed && page >= region.pages.size()) break;
  }
  return true;
}

/// Whether a chunk is where it claims to be, and has this many users.
bool chunk_is_valid(const Region& region, const Chunk* chunk, uint64_t users) {
  return chunk->users == users && chunk->region == &region &&
         region.chunk_at(region.is_segment ? 0 : region.page_of(chunk->address)) == chunk;
}

/// Blocks and chunks are both in address order, so one walk counts the users of each chunk.
bool users_are_valid(const Region& region) {
  const Chunk* current = nullptr;
  uint64_t users = 0;
  uint64_t counted = 0;
  bool good = true;
  for (const Range* block = region.first; block != nullptr; block = block->next) {
    if (!is_block(block)) continue;
    for_chunks(region, block->address, block->end(), [&](const Chunk* chunk) {
      if (chunk != current) {
        good = good && (current == nullptr || chunk_is_valid(region, current, users));
        current = chunk;
        users = 0;
      }
      ++users;
      ++counted;
    });
  }
  good = good && (current == nullptr || chunk_is_valid(region, current, users));
  for_each_chunk(region, [&](const Chunk* chunk) {
    counted -= chunk->users;
    good = good && (chunk->users != 0 || chunk_is_valid(region, chunk, 0));
  });
  return good && counted == 0;
}

bool region_is_valid(const Region& region, const AddressMap& map, std::string& why) {
  Address at = region.base;
  const Range* prev = nullptr;
  for (const Range* block = region.first; block != nullptr; prev = block, block = block->next) {
    if (block->address != at || block->size == 0 || block->prev != prev || block->region != &region)
      return broken(why, "ranges do not cover the region", at);
    if (!range_is_valid(region, block, map, why)) return false;
    at = block->end();
  }
  if (at != region.end()) return broken(why, "ranges end before the region", at);
  return users_are_valid(region) || broken(why, "a chunk's users or place differ", region.base);
}

}  // namespace

bool Space::is_valid(std::string& why) const {
  uint64_t shared = 0;
  for (const Region& region : regions) {
    if (!region_is_valid(region, map, why)) return false;
    for_each_chunk(region, [&](const Chunk* chunk) {
      if (chunk->users == 0 && chunk->heap->shares()) shared += chunk->size;
    });
  }
  return shared == free_chunks.bytes() || broken(why, "shared free chunks differ", 0);
}

bool Heap::count(const Space& space, Census& found, std::string& why) {
  for (const Region& region : space.regions) {
    for (const Range* block = region.first; block != nullptr; block = block->next) {
      if (!is_free(block)) continue;
      ++found[block->heap].ranges;
      const Heap& heap = *block->heap;
      if (!(block->is(State::hole) ? heap.holes_ : heap.bare_).contains(block))
        return broken(why, "free range not indexed", block->address);
    }
    for_each_chunk(region, [&](const Chunk* chunk) {
      Holding& holding = found[chunk->heap];
      holding.reserved += chunk->size;
      if (chunk->users == 0) holding.free_bytes += chunk->size;
      ++holding.chunks;
    });
  }
  return true;
}

bool Heap::is_valid(const Census& found, std::string& why) const {
  if (!holes_.is_valid() || !bare_.is_valid()) return broken(why, "free index inconsistent", 0);
  const auto own = found.find(this);
  const Holding holding = own != found.end() ? own->second : Holding{};
  if (holding.ranges != holes_.count() + bare_.count()) return broken(why, "index holds unknown ranges", 0);
  if (holding.reserved != reserved_ || holding.chunks != chunk_count_)
    return broken(why, "reserved differs", 0);
  if (holding.free_bytes != free_chunks_.bytes()) return broken(why, "free chunks differ", 0);
  return true;
}

bool Heap::is_valid(std::string& why) const {
  Census found;
  return count(space_, found, why) && is_valid(found, why);
}

}  // namespace gpupool::internal
