// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/lone_blocks.hpp"

#include <algorithm>
#include <cinttypes>
#include <mutex>
#include <utility>

#include "pool/memory/blocks.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/sleep/asleep_chunks.hpp"
#include "pool/sleep/saved_bytes.hpp"
#include "pool/sleep/sleep_hooks.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

LoneBlocks::Transit::~Transit() {
  blocks_.transit_ = 0;
  if (Range* freed = std::exchange(blocks_.freed_, nullptr)) reclaimer_.free_to_heap(*freed);
}

LoneBlocks::Watch::~Watch() {
  const std::unordered_set<Address> watched = std::exchange(blocks_.watched_, {});
  for (const Address address : watched) blocks_.remove_mark(address);
}

void LoneBlocks::Watch::add(Address address) {
  blocks_.watched_.insert(address);
  Range* block = find_live(blocks_.pool_.space, address);
  if (block == nullptr || !blocks_.add_mark(*block)) blocks_.watched_.erase(address);
}

std::vector<Address> LoneBlocks::all() const {
  std::vector<Address> blocks;
  blocks.reserve(pool_.gate.alone.size());
  for (const auto& [address, records] : pool_.gate.alone) blocks.push_back(address);
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

void LoneBlocks::note_free(Address address) noexcept {
  if (!kept_.empty()) kept_.erase(address);
  if (!watched_.empty() && watched_.erase(address) != 0) hooks_.forget(address);
}

Status LoneBlocks::set_keep(Range& block, bool keep) {
  const Address address = block.address;
  if (keep) kept_.insert(address);
  const std::lock_guard owner_lock(owner_of(block)->lock);
  if (!block.is(State::live)) {
    kept_.erase(address);
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
  }
  if (!keep) kept_.erase(address);
  // A free of the block must come to the pool's lock.
  const bool needs_mark = keep || pool_.gate.is_alone(address) || watched_.contains(address);
  needs_mark ? block.add_marks(kKept) : block.remove_marks(kKept);
  return kSuccess;
}

void LoneBlocks::promise(Address address, size_t records) {
  pool_.space.store.promise(records);
  pool_.gate.alone[address] = records;
}

Status LoneBlocks::mark(Range& block) {
  const Address address = block.address;
  pool_.gate.alone.try_emplace(address, 0);
  if (add_mark(block)) return kSuccess;
  pool_.gate.alone.erase(address);
  return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
}

void LoneBlocks::end(Address address) noexcept {
  const auto known = pool_.gate.alone.find(address);
  if (known == pool_.gate.alone.end()) return;
  pool_.space.store.keep_promise(known->second);
  pool_.gate.alone.erase(known);
  remove_mark(address);
}

bool LoneBlocks::add_mark(Range& block) noexcept {
  const std::lock_guard owner_lock(owner_of(block)->lock);
  const bool is_live = block.is(State::live);
  if (is_live) block.add_marks(kKept);
  return is_live;
}

void LoneBlocks::remove_mark(Address address) noexcept {
  Range* block = find_live(pool_.space, address);
  if (block == nullptr || kept_.contains(address) || pool_.gate.is_alone(address) ||
      watched_.contains(address))
    return;
  const std::lock_guard owner_lock(owner_of(*block)->lock);
  if (block->is(State::live)) block->remove_marks(kKept);
}

void LoneBlocks::take(Range& block) noexcept {
  const Address address = block.address;
  if (transit_ == address) {
    freed_ = &block;
    return;
  }
  const Address end = block.end();
  const Region& region = *block.region;
  StreamHeap& heap = heap_of(block);
  const auto known = pool_.gate.alone.find(address);
  const size_t records = known->second;
  pool_.gate.alone.erase(known);
  hooks_.forget(address);
  heap.free(&block, heap.state().order.stamp());
  if (pool_.gate.state != GPUPOOL_SLEEP_STATE_WAKING) {
    pool_.space.store.keep_promise(records);
    chunks_.drop_freed(region, address, end);
    saved_.forget(address, end);
  } else {
    freed_records_ += records;
  }
}

void LoneBlocks::drop_freed() noexcept {
  if (freed_records_ == 0) return;
  pool_.space.store.keep_promise(std::exchange(freed_records_, 0));
  for (const Region& region : pool_.space.regions) {
    chunks_.drop_freed(region, region.base, region.base + region.pages.size() * kGranule);
  }
  saved_.forget();
}

}  // namespace gpupool::internal
