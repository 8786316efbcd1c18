// SPDX-License-Identifier: Apache-2.0
#include "core/heap.hpp"

#include <algorithm>

namespace gpupool::internal {

// ---- ranges

void Heap::unlink(Range* block) noexcept {
  (block->prev != nullptr ? block->prev->next : block->region->first) = block->next;
  if (block->next != nullptr) block->next->prev = block->prev;
  space_.store.recycle(block);
}

/// Splits a free range: returns the front as a range in no index; the rest stays in `index`.
Range* Heap::cut_front(FreeIndex& index, Range* range, uint64_t size) noexcept {
  Range* front = space_.store.get();
  front->address = range->address;
  front->size = size;
  front->heap = this;
  front->region = range->region;
  front->set(Tag::of(range->state()));
  front->prev = range->prev;
  front->next = range;
  (range->prev != nullptr ? range->prev->next : range->region->first) = front;
  range->prev = front;
  index.resize(range, range->address + size, range->size - size);
  return front;
}

/// Cuts [address, address + size) out of a free range, and out of its index.
Range* Heap::isolate(Range* range, Address address, uint64_t size) noexcept {
  FreeIndex& index = index_of_state(range->state());
  if (range->address != address) index.insert(cut_front(index, range, address - range->address));
  if (range->size != size) return cut_front(index, range, size);
  index.remove(range);
  return range;
}

/// Makes a range a hole or bare, merged with neighbours of the same state, and indexes it. Returns the whole.
Range* Heap::make_free(Range* block, State state) noexcept {
  FreeIndex& index = index_of_state(state);
  Range* prev = block->prev;
  Range* next = block->next;
  const bool joins_prev = prev != nullptr && prev->is(state) && prev->heap == this;
  const bool joins_next = next != nullptr && next->is(state) && next->heap == this;
  if (joins_prev) {
    const Address end = joins_next ? next->end() : block->end();
    if (joins_next) {
      index.remove(next);
      unlink(next);
    }
    unlink(block);
    index.resize(prev, prev->address, end - prev->address);
    return prev;
  }
  if (joins_next) {
    const Address address = block->address;
    unlink(block);
    index.resize(next, address, next->end() - address);
    return next;
  }
  block->set(Tag::of(state));
  index.insert(block);
  return block;
}

// ---- blocks

Range* Heap::allocate(uint64_t size, uint64_t alignment, bool exhaustive) {
  Range* hole = holes_.find(size + alignment - kUnit, exhaustive);
  return hole != nullptr ? cut_block(hole, align_up(hole->address, alignment), size) : nullptr;
}

Range* Heap::allocate_at(Address address, uint64_t size) {
  Range* hole = range_at(address);
  const bool has_room =
      hole != nullptr && hole->heap == this && hole->is(State::hole) && hole->end() - address >= size;
  return has_room ? cut_block(hole, address, size) : nullptr;
}

Range* Heap::cut_block(Range* hole, Address start, uint64_t size) {
  space_.store.reserve(2);
  space_.map.prepare(start);
  Range* block = isolate(hole, start, size);
  block->set(Tag::of_new_block());
  for_chunks(*block->region, block->address, block->end(), [this](Chunk* chunk) {
    if (chunk->users++ != 0) return;
    claim_chunk(chunk);
    chunk->serial = space_.next_serial();
  });
  space_.map.insert(block);
  return block;
}

/// A block leaves the address map and the chunks that it touches.
void Heap::unregister(const Range* block, uint64_t epoch) noexcept {
  space_.map.erase(block);
  for_chunks(*block->region, block->address, block->end(), [&](Chunk* chunk) {
    if (--chunk->users != 0) return;
    chunk->epoch = epoch;
    chunk->serial = space_.next_serial();
    unclaim_chunk(chunk);
  });
}

void Heap::free(Range* block, uint64_t epoch) noexcept {
  unregister(block, epoch);
  make_free(block, State::hole);
}

Range* Heap::free_listed(Range* block, uint64_t epoch) noexcept {
  unregister(block, epoch);
  Range* record = space_.store.get();
  record->address = block->address;
  record->size = block->size;
  record->heap = this;
  record->region = block->region;
  record->prev = block->prev;
  record->next = block->next;
  (record->prev != nullptr ? record->prev->next : record->region->first) = record;
  if (record->next != nullptr) record->next->prev = record;
  block->set(Tag::of(State::unused));
  return make_free(record, State::hole);
}

// ---- memory

Region& Heap::open_region(Address base, uint64_t size, std::vector<Chunk*> pages) {
  Region& region = space_.regions.emplace_back();
  region.self = std::prev(space_.regions.end());
  region.pages = std::move(pages);
  region.base = base;
  region.size = size;
  region.home = this;
  return region;
}

/// Adds a new range after `last`, and returns it.
Range* Heap::append(Region& region, Range* last, Address end, Tag tag) noexcept {
  Range* range = space_.store.get();
  range->address = last != nullptr ? last->end() : region.base;
  range->size = end - range->address;
  range->heap = this;
  range->region = &region;
  range->link = nullptr;
  range->prev = last;
  range->next = nullptr;
  range->set(tag);
  (last != nullptr ? last->next : region.first) = range;
  return range;
}

void Heap::add_region(Address base, uint64_t size) {
  space_.store.reserve(1);
  Region& region = open_region(base, size, {});
  make_free(append(region, nullptr, region.end(), Tag::of(State::unused)), State::bare);
}

void Heap::add_segment(Chunk* chunk, uint64_t epoch) {
  space_.store.reserve(1);
  std::vector<Chunk*> pages(1, chunk);
  Region& region = open_region(chunk->address, chunk->size, std::move(pages));
  region.is_segment = true;
  chunk->heap = this;
  chunk->region = &region;
  chunk->users = 0;
  chunk->epoch = epoch;
  chunk->serial = space_.next_serial();
  Range* range = append(region, nullptr, region.end(), Tag::of(State::unused));
  reserved_ += chunk->size;
  ++chunk_count_;
  unclaim_chunk(chunk);
  make_free(range, State::hole);
}

void Heap::remove_segment(Chunk* chunk, Aside& aside) noexcept {
  claim_chunk(chunk);
  holes_.remove(chunk->region->first);
  reserved_ -= chunk->size;
  --chunk_count_;
  aside.splice(aside.end(), space_.regions, chunk->region->self);
}

void Heap::insert_segment(Chunk* chunk, Aside& aside) noexcept {
  space_.regions.splice(space_.regions.end(), aside, chunk->region->self);
  reserved_ += chunk->size;
  ++chunk_count_;
  holes_.insert(chunk->region->first);
  unclaim_chunk(chunk);
}

void Heap::prepare_attach(Region* region, Address address, uint64_t size) {
  space_.store.reserve(4);
  const size_t pages = region->page_of(address + size);
  std::vector<Chunk*>& table = region->pages;
  if (table.size() < pages) table.resize(std::max(pages, table.size() + table.size() / 2));
}

/// The range that holds `address`, found from the last block below it in a few steps.
Range* Heap::range_around(const Region& region, Address address) const noexcept {
  Range* range = region.first;
  Range* before = space_.map.find_at_or_before(address);
  if (before != nullptr && before->region == &region) range = before;
  while (range->end() <= address) range = range->next;
  return range;
}

/// The range that holds `address`, of whichever heap; null where no region is.
Range* Heap::range_at(Address address) const noexcept {
  const auto region = std::find_if(space_.regions.begin(), space_.regions.end(), [&](const Region& each) {
    return each.base <= address && address < each.end();
  });
  return region != space_.regions.end() ? range_around(*region, address) : nullptr;
}

void Heap::attach(Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept {
  Range* range = range_around(*region, address);
  assert(range->is(State::bare) && address + chunk->size <= range->end());
  range = isolate(range, address, chunk->size);
  const size_t first = region->page_of(address);
  std::fill_n(region->pages.begin() + static_cast<ptrdiff_t>(first), chunk->size / kGranule, chunk);
  chunk->address = address;
  chunk->heap = this;
  chunk->region = region;
  chunk->users = 0;
  chunk->epoch = epoch;
  chunk->serial = space_.next_serial();
  unclaim_chunk(chunk);
  reserved_ += chunk->size;
  ++chunk_count_;
  make_free(range, State::hole);
}

Range* Heap::detach(Chunk* chunk) noexcept {
  Range* range = range_around(*chunk->region, chunk->address);
  assert(range->is(State::hole) && chunk->end() <= range->end());
  range = isolate(range, chunk->address, chunk->size);
  range->become(State::retired);
  const size_t first = chunk->region->page_of(chunk->address);
  std::fill_n(chunk->region->pages.begin() + static_cast<ptrdiff_t>(first), chunk->size / kGranule, nullptr);
  reserved_ -= chunk->size;
  --chunk_count_;
  chunk->address = 0;
  chunk->heap = nullptr;
  chunk->region = nullptr;
  return range;
}

Range* Heap::retire_bare(Region* region, Address address, uint64_t size) noexcept {
  Range* range = range_around(*region, address);
  assert(range->is(State::bare) && address + size <= range->end());
  range = isolate(range, address, size);
  range->become(State::retired);
  return range;
}

void Heap::merge_chunks(Chunk* const* chunks, size_t count) noexcept {
  Chunk* first = chunks[0];
  Region& region = *first->region;
  for (size_t i = 1; i < count; ++i) first->size += chunks[i]->size;
  const size_t page = region.page_of(first->address);
  std::fill_n(region.pages.begin() + static_cast<ptrdiff_t>(page), first->size / kGranule, first);
  chunk_count_ -= count - 1;
}

void Heap::move_run(const Window& run, Heap& to, uint64_t epoch) noexcept {
  Range* range = isolate(range_around(*run.region, run.start), run.start, run.end - run.start);
  for_chunks(*run.region, run.start, run.end, [&](Chunk* chunk) {
    claim_chunk(chunk);
    reserved_ -= chunk->size;
    --chunk_count_;
    chunk->heap = &to;
    chunk->epoch = epoch;
    chunk->serial = space_.next_serial();
    to.unclaim_chunk(chunk);
    to.reserved_ += chunk->size;
    ++to.chunk_count_;
  });
  range->heap = &to;
  to.make_free(range, State::hole);
}

void Heap::reuse_retired(Range* retired) noexcept {
  // Back to the heap that has the addresses around it: if each former heap kept its part, they would never
  // merge again.
  Heap& home = *retired->region->home;
  retired->heap = &home;
  home.make_free(retired, State::bare);
}

uint64_t Heap::largest_hole() const noexcept {
  const Range* front = holes_.top_bin();
  return front != nullptr ? front->size : 0;
}

void Heap::set_shares(bool shares) noexcept {
  if (shares == shares_) return;
  for (size_t at = 0; at < ChunkLists::kClasses; ++at) {
    for (Chunk* chunk = free_chunks_.oldest(at); chunk != nullptr; chunk = ChunkLists::after(chunk)) {
      shares ? space_.free_chunks.push(chunk) : space_.free_chunks.remove(chunk);
    }
  }
  shares_ = shares;
}

}  // namespace gpupool::internal
