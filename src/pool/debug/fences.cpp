// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/fences.hpp"

#include <new>

#include "base/defer.hpp"
#include "pool/memory/backing.hpp"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

Status Fences::allocate(StreamState& state, uint64_t bytes, uint64_t alignment, Range*& block) {
  MeteredDevice& device = pool_.device;
  const uint64_t backed = align_up(bytes, kGranule);
  const uint64_t size = backed + kGuard;
  if (closing_.capacity() <= count_) closing_.reserve(2 * count_ + 16);
  Address base = 0;
  if (const Status status = device.reserve_addresses(size, base); status != kSuccess) return status;
  Defer release_addresses([&] { (void)device.release_addresses(base, size); });
  if (!AddressMap::covers(base, size))
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "the driver's addresses do not fit in 48 bits");
  Chunk* chunk = nullptr;
  if (const Status status = pool_.backing.create(backed, chunk); status != kSuccess) return status;
  Defer release_chunk([&] { (void)pool_.backing.release(Retention::of_unused(), chunk); });
  if (const Status status = device.map(base, backed, chunk->handle); status != kSuccess) return status;
  Defer undo_map([&] { (void)device.unmap(Retention::of_unused(), base, backed); });
  if (const Status status = device.set_access(base, backed); status != kSuccess) return status;
  device.annotate(base, backed, Accessibility::closed);
  StreamHeap& heap = state.heap(group_of(bytes));
  block = heap.add_fence(base, size, chunk, bytes, alignment);
  undo_map.cancel();
  release_chunk.cancel();
  release_addresses.cancel();
  pool_.ledger.attached(heap.group(), backed);
  pool_.log.mapped(heap, base, backed);
  ++count_;
  return kSuccess;
}

void Fences::retire(Range& block) noexcept {
  Chunk* chunk = block.region->pages.front();
  closing_.push_back({chunk, heap_of(block).state().order.stamp()});
  sweep();
}

void Fences::sweep() noexcept {
  pool_.streams.next_round();
  std::erase_if(closing_, [this](const Closing& each) { return close(each); });
}

/// Unmaps a block that its stream has passed. True if the mapping is gone.
bool Fences::close(const Closing& closing) noexcept {
  Chunk* chunk = closing.chunk;
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  const auto departure = pool_.retention.unmap(heap.state(), closing.epoch, 0, Retention::Cause::need);
  if (!departure) return false;
  const Addresses old{chunk->region->base, chunk->region->size};
  if (pool_.device.unmap(*departure, chunk->address, chunk->size) != kSuccess) return false;
  // With nothing mapped there, the addresses need no other guard.
  pool_.device.annotate(chunk->address, chunk->size, Accessibility::open);
  pool_.ledger.detached(heap.group(), chunk->size);
  pool_.log.unmapped(heap, chunk->address, chunk->size);
  heap.remove_fence(chunk);
  (void)pool_.backing.release(*departure, chunk);
  --count_;
  keep_addresses(old);
  return true;
}

void Fences::keep_addresses(Addresses old) noexcept {
  try {
    old_.push_back(old);
    old_bytes_ += old.size;
  } catch (const std::bad_alloc&) {
    (void)pool_.device.release_addresses(old.base, old.size);
  }
  while (old_.size() > kOldRanges || old_bytes_ > kOldBytes) {
    (void)pool_.device.release_addresses(old_.front().base, old_.front().size);
    old_bytes_ -= old_.front().size;
    old_.pop_front();
  }
}

void Fences::end() noexcept {
  sweep();
  for (const Addresses& old : old_) (void)pool_.device.release_addresses(old.base, old.size);
  old_.clear();  // a new deque in its place would take memory of the host's
  old_bytes_ = 0;
}

}  // namespace gpupool::internal
