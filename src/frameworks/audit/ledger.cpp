// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/ledger.hpp"

#include <sys/mman.h>

#include <mutex>

namespace gpupool::audit {
namespace {

constinit Ledger* only = nullptr;

}  // namespace

Ledger& Ledger::get() noexcept {
  return *only;
}

bool Ledger::begin() noexcept {
  void* const pages =
      mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  (void)madvise(pages, sizeof(Ledger), MADV_WIPEONFORK);
  only = static_cast<Ledger*>(pages);
  return true;
}

// ---- blocks

bool Ledger::put(uint64_t address, const Block& block) noexcept {
  if (!insert(address, block)) return false;
  device(block.device).account.count(block.kind, block.bytes);
  return true;
}

bool Ledger::insert(uint64_t address, const Block& block) noexcept {
  Shard& shard = shard_of(address);
  Block old{};
  bool has_old = false;
  bool is_put = false;
  {
    const std::lock_guard lock(shard.lock);
    has_old = shard.blocks.remove(address, old);
    is_put = shard.blocks.put(address, block);
  }
  if (has_old) end(old);  // freed by a caller that is not hooked
  return is_put;
}

bool Ledger::remove(uint64_t address, Block& block) noexcept {
  Shard& shard = shard_of(address);
  const std::lock_guard lock(shard.lock);
  return shard.blocks.remove(address, block);
}

void Ledger::end(const Block& block) noexcept {
  Device& there = device(block.device);
  if (block.kind == Kind::pool) {
    pools_.at(block.pool).pooled.give(there.account, block.bytes);
  } else if (block.kind == Kind::managed) {
    there.account.give_managed(block.bytes);
  } else {
    there.account.give(block.bytes);
  }
}

void Ledger::end_context(CUcontext context) noexcept {
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.lock);
    shard.blocks.remove_if([&](const Block& block) {
      if (block.context != context) return false;
      end(block);
      return true;
    });
  }
}

// ---- chunks

bool Ledger::create(CUmemGenericAllocationHandle handle, int number, uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t chunk = ++last_chunk_;
  if (chunks_.put(chunk, {bytes, 1, 0, 0, number}) && handles_.put(handle, chunk)) {
    device(number).account.count(Kind::chunk, bytes);
    return true;
  }
  Chunk forgotten{};
  (void)chunks_.remove(chunk, forgotten);
  return false;
}

void Ledger::retain(CUmemGenericAllocationHandle handle, uint64_t address) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t* const known = handles_.find(handle);
  // The address may be within a mapping. That is looked for only if no handle was left, so seldom.
  const Mapping* const mapping =
      known != nullptr ? nullptr : mappings_.find_if([&](uint64_t start, const Mapping& each) {
        return address >= start && address - start < each.bytes;
      });
  const uint64_t chunk = known != nullptr ? *known : mapping != nullptr ? mapping->chunk : 0;
  if (chunk != 0 && (known != nullptr || handles_.put(handle, chunk))) ++chunks_.find(chunk)->handles;
}

uint64_t Ledger::release(CUmemGenericAllocationHandle handle) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t* const found = handles_.find(handle);
  if (found == nullptr) return 0;
  uint64_t number = *found;
  Chunk& chunk = *chunks_.find(number);
  if (++chunk.releases == chunk.handles) (void)handles_.remove(handle, number);
  return number;
}

void Ledger::keep(CUmemGenericAllocationHandle handle, uint64_t number) noexcept {
  const std::lock_guard lock(lock_);
  Chunk& chunk = *chunks_.find(number);
  if (chunk.releases-- == chunk.handles) (void)handles_.put(handle, number);
}

void Ledger::drop(uint64_t number) noexcept {
  const std::lock_guard lock(lock_);
  Chunk& chunk = *chunks_.find(number);
  --chunk.releases;
  --chunk.handles;
  end_if_unused(number);
}

/// With the lock.
void Ledger::end_if_unused(uint64_t number) noexcept {
  Chunk chunk = *chunks_.find(number);
  if (chunk.handles != 0 || chunk.mappings != 0) return;
  (void)chunks_.remove(number, chunk);
  device(chunk.device).account.give(chunk.bytes);
}

void Ledger::map(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t* const chunk = handles_.find(handle);
  if (chunk != nullptr && mappings_.put(address, {bytes, *chunk})) ++chunks_.find(*chunk)->mappings;
}

/// The driver unmaps whole mappings only, which lie side by side.
void Ledger::unmap(uint64_t address, uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t end = address + bytes;
  Mapping mapping{};
  while (address < end && mappings_.remove(address, mapping)) {
    address += mapping.bytes;
    --chunks_.find(mapping.chunk)->mappings;
    end_if_unused(mapping.chunk);
  }
}

}  // namespace gpupool::audit
