// SPDX-License-Identifier: Apache-2.0
#include "pool/fences.hpp"

#include <new>
#include <utility>

#include "base/defer.hpp"
#include "pool/backing.hpp"
#include "pool/rooms.hpp"

namespace gpupool::internal {

Status Fences::allocate(StreamState& state, uint64_t bytes, uint64_t alignment, Range*& block) {
  MeteredDevice& device = rooms_.device;
  const uint64_t backed = align_up(bytes, kGranule);
  const uint64_t size = backed + kGuard;
  if (closing_.capacity() <= count_) closing_.reserve(2 * count_ + 16);
  Address base = 0;
  if (const Status status = device.reserve_addresses(size, base); status != kSuccess) return status;
  Defer release_addresses([&] { (void)device.release_addresses(base, size); });
  if (!AddressMap::covers(base, size))
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "the driver's addresses do not fit in 48 bits");
  Chunk* chunk = nullptr;
  if (const Status status = backing_.create(backed, chunk); status != kSuccess) return status;
  Defer release_chunk([&] { (void)backing_.release(chunk); });
  if (const Status status = device.map(base, backed, chunk->handle); status != kSuccess) return status;
  Defer undo_map([&] { (void)device.unmap(base, backed); });
  if (const Status status = device.set_access(base, backed); status != kSuccess) return status;
  device.annotate(base, backed, Standing::closed);
  StreamHeap& heap = state.heap(group_of(bytes));
  block = heap.add_fence(base, size, chunk, bytes, alignment);
  undo_map.cancel();
  release_chunk.cancel();
  release_addresses.cancel();
  rooms_.ledger.attached(heap.group(), backed);
  rooms_.narrator.mapped(heap, base, backed);
  ++count_;
  return kSuccess;
}

void Fences::retire(Range& block) noexcept {
  Chunk* chunk = block.region->pages.front();
  closing_.push_back({chunk, heap_of(block).state().order.stamp()});
  sweep();
}

void Fences::sweep() noexcept {
  rooms_.streams.next_round();
  std::erase_if(closing_, [this](const Closing& each) { return close(each); });
}

/// Unmaps a block that its stream has passed. True if the mapping is gone.
bool Fences::close(const Closing& closing) noexcept {
  Chunk* chunk = closing.chunk;
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  if (!heap.state().order.passed(closing.epoch)) return false;
  const Addresses old{chunk->region->base, chunk->region->size};
  if (rooms_.device.unmap(chunk->address, chunk->size) != kSuccess) return false;
  // With nothing mapped there, the addresses need no other guard.
  rooms_.device.annotate(chunk->address, chunk->size, Standing::open);
  rooms_.ledger.detached(heap.group(), chunk->size);
  rooms_.narrator.unmapped(heap, chunk->address, chunk->size);
  heap.remove_fence(chunk);
  (void)backing_.release(chunk);
  --count_;
  keep_addresses(old);
  return true;
}

void Fences::keep_addresses(Addresses old) noexcept {
  try {
    old_.push_back(old);
    old_bytes_ += old.size;
  } catch (const std::bad_alloc&) {
    (void)rooms_.device.release_addresses(old.base, old.size);
  }
  while (old_.size() > kOldRanges || old_bytes_ > kOldBytes) {
    (void)rooms_.device.release_addresses(old_.front().base, old_.front().size);
    old_bytes_ -= old_.front().size;
    old_.pop_front();
  }
}

void Fences::end() noexcept {
  sweep();
  for (const Addresses& old : std::exchange(old_, {})) {
    (void)rooms_.device.release_addresses(old.base, old.size);
  }
  old_bytes_ = 0;
}

}  // namespace gpupool::internal
