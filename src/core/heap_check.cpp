// SPDX-License-Identifier: Apache-2.0
// Every promise of a heap, re-derived.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <unordered_map>

#include "core/heap.hpp"

namespace gpupool {
namespace {

bool broken(std::string& why, const char* what, Address address) {
  char text[160];
  std::snprintf(text, sizeof text, "%s at 0x%" PRIx64, what, address);
  why = text;
  return false;
}

bool is_block(const Block* block) {
  return block->is(State::live) || block->is(State::cached) || block->is(State::pending);
}

}  // namespace

bool Heap::region_is_valid(const Region& region, std::string& why) const {
  std::unordered_map<const Chunk*, uint32_t> users;
  Address at = region.base;
  const Block* prev = nullptr;
  for (const Block* block = region.first; block != nullptr; prev = block, block = block->next) {
    if (block->address != at || block->size == 0 || block->prev != prev || block->region != &region ||
        block->heap != this) {
      return broken(why, "ranges do not cover the region", at);
    }
    at = block->end();
    const bool free = block->is(State::hole) || block->is(State::bare);
    if (free && prev != nullptr && prev->state == block->state) return broken(why, "holes not merged", at);
    if (block->is(State::hole) && !holes_.contains(block)) return broken(why, "hole not indexed", at);
    if (block->is(State::bare) && !bare_.contains(block)) return broken(why, "bare range not indexed", at);
    if (is_block(block) != (map_.find(block->address) == block))
      return broken(why, "address map differs", at);
    if (!region.is_segment) {
      const bool backed = is_block(block) || block->is(State::hole);
      const size_t last = region.page_of(block->end() - 1);
      for (size_t page = region.page_of(block->address); page <= last; ++page) {
        if ((region.chunk_at(page) != nullptr) != backed) return broken(why, "backing differs", at);
        if (!backed && page >= region.pages.size()) break;
      }
    }
    if (is_block(block)) {
      for_chunks(region, block->address, block->end(), [&](Chunk* chunk) { ++users[chunk]; });
    }
  }
  if (at != region.end()) return broken(why, "ranges end before the region", at);
  for (const Chunk* chunk : region.pages) {
    if (chunk != nullptr && chunk->users != users[chunk]) return broken(why, "users differ", chunk->address);
  }
  return true;
}

bool Heap::is_valid(std::string& why) const {
  if (!holes_.is_valid() || !bare_.is_valid()) return broken(why, "free index inconsistent", 0);
  uint64_t reserved = 0;
  uint64_t chunks = 0;
  uint64_t free_bytes = 0;
  size_t ranges = 0;
  for (const Region& region : regions_) {
    if (!region_is_valid(region, why)) return false;
    for (const Block* block = region.first; block != nullptr; block = block->next) {
      if (block->is(State::hole) || block->is(State::bare)) ++ranges;
    }
    for (size_t page = 0; page < region.pages.size();) {
      const Chunk* chunk = region.pages[page];
      if (chunk == nullptr) {
        ++page;
        continue;
      }
      if (chunk->heap != this || chunk->region != &region || chunk->address != region.page_address(page)) {
        return broken(why, "chunk is not where the page says", chunk->address);
      }
      reserved += chunk->size;
      if (chunk->users == 0) free_bytes += chunk->size;
      ++chunks;
      page = region.is_segment ? region.pages.size() : region.page_of(chunk->end());
    }
  }
  if (ranges != holes_.count() + bare_.count()) return broken(why, "index holds unknown ranges", 0);
  if (reserved != reserved_ || chunks != chunk_count_) return broken(why, "reserved differs", 0);
  if (free_bytes != free_chunks_.bytes()) return broken(why, "free chunks differ", 0);
  return true;
}

}  // namespace gpupool
