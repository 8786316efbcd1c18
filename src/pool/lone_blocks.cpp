// SPDX-License-Identifier: Apache-2.0
#include "pool/lone_blocks.hpp"

#include <algorithm>
#include <cinttypes>
#include <mutex>
#include <utility>

#include "pool/asleep_chunks.hpp"
#include "pool/blocks.hpp"
#include "pool/saved_bytes.hpp"
#include "pool/sleep_hooks.hpp"
#include "pool/streams.hpp"
#include "pool/way_back.hpp"

namespace gpupool::internal {

LoneBlocks::Transit::~Transit() {
  blocks_.transit_ = 0;
  if (Range* freed = std::exchange(blocks_.freed_, nullptr)) way_back_.free_to_heap(*freed);
}

LoneBlocks::Watch::~Watch() {
  const std::unordered_set<Address> watched = std::exchange(blocks_.watched_, {});
  for (const Address address : watched) blocks_.remove_mark(address);
}

void LoneBlocks::Watch::add(Address address) {
  blocks_.watched_.insert(address);
  Range* block = find_live(blocks_.space_, address);
  if (block == nullptr || !blocks_.add_mark(*block)) blocks_.watched_.erase(address);
}

std::vector<Address> LoneBlocks::all() const {
  std::vector<Address> blocks;
  blocks.reserve(alone_.size());
  for (const auto& [address, records] : alone_) blocks.push_back(address);
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

void LoneBlocks::forget(Address address) noexcept {
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
  const bool needs_mark = keep || is_alone(address) || watched_.contains(address);
  needs_mark ? block.add_marks(kKept) : block.remove_marks(kKept);
  return kSuccess;
}

void LoneBlocks::promise(Address address, size_t records) {
  space_.store.promise(records);
  alone_[address] = records;
}

Status LoneBlocks::mark(Range& block) {
  const Address address = block.address;
  alone_.try_emplace(address, 0);
  if (add_mark(block)) return kSuccess;
  alone_.erase(address);
  return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
}

void LoneBlocks::end(Address address) noexcept {
  const auto known = alone_.find(address);
  if (known == alone_.end()) return;
  space_.store.keep_promise(known->second);
  alone_.erase(known);
  remove_mark(address);
}

bool LoneBlocks::add_mark(Range& block) noexcept {
  const std::lock_guard owner_lock(owner_of(block)->lock);
  const bool is_live = block.is(State::live);
  if (is_live) block.add_marks(kKept);
  return is_live;
}

void LoneBlocks::remove_mark(Address address) noexcept {
  Range* block = find_live(space_, address);
  if (block == nullptr || kept_.contains(address) || is_alone(address) || watched_.contains(address)) return;
  const std::lock_guard owner_lock(owner_of(*block)->lock);
  if (block->is(State::live)) block->remove_marks(kKept);
}

void LoneBlocks::free_block(Range& block) noexcept {
  const Address address = block.address;
  if (transit_ == address) {
    freed_ = &block;
    return;
  }
  const Address end = block.end();
  const Region& region = *block.region;
  StreamHeap& heap = heap_of(block);
  const auto known = alone_.find(address);
  const size_t records = known->second;
  alone_.erase(known);
  hooks_.forget(address);
  heap.free(&block, heap.state().order.stamp());
  if (state_ != GPUPOOL_SLEEP_STATE_WAKING) {
    space_.store.keep_promise(records);
    chunks_.drop_freed(region, address, end);
    saved_.forget(address, end);
  } else {
    freed_records_ += records;
  }
}

void LoneBlocks::drop_freed() noexcept {
  if (freed_records_ == 0) return;
  space_.store.keep_promise(std::exchange(freed_records_, 0));
  for (const Region& region : space_.regions) {
    chunks_.drop_freed(region, region.base, region.base + region.pages.size() * kGranule);
  }
  saved_.forget();
}

}  // namespace gpupool::internal
