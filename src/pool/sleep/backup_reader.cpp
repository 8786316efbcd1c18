// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/backup_reader.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "pool/memory/blocks.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/sleep/saved_bytes.hpp"

namespace gpupool::internal {
namespace {

/// How much is copied under one hold of the pool's lock: some 20 us.
constexpr uint64_t kReadAtOnce = uint64_t{256} << 10;

}  // namespace

Status find_backup(SleepContext& in, Address address, const void*& data, uint64_t& bytes) {
  gpupool_block_t block{};
  if (const Status status = block_info(in.pool, address, block); status != kSuccess) return status;
  const Region& region = *in.pool.space.map.find(block.address)->region;
  if (region.is_segment || !region.pages[region.page_of(address)]->asleep)
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "what is at 0x%" PRIx64 " is not asleep: use it", address);
  const SavedRun* run = in.saved.find(address);
  if (run == nullptr) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "what was in the block at 0x%" PRIx64 " was dropped",
                block.address);
  }
  uint64_t in_piece = 0;
  data = reinterpret_cast<const void*>(in.saved.at(run->offset + (address - run->address), in_piece));
  bytes = std::min(
      {in_piece, block.address + block.allocated_bytes - address, run->address + run->size - address});
  return kSuccess;
}

Status read_backup(SleepContext& in, PoolLock& lock, Address address, void* data, uint64_t bytes) {
  gpupool_block_t block{};
  if (const Status status = block_info(in.pool, address, block); status != kSuccess) return status;
  if (const uint64_t rest = block.address + block.allocated_bytes - address; bytes > rest) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "%" PRIu64 " bytes from 0x%" PRIx64 " on are wanted, and the block has %" PRIu64, bytes,
                address, rest);
  }
  uint64_t save = in.saved.saves();
  for (uint64_t done = 0; done < bytes;) {
    const void* from = nullptr;
    uint64_t part = 0;
    if (const Status status = find_backup(in, address + done, from, part); status != kSuccess) return status;
    part = std::min({part, bytes - done, kReadAtOnce});
    std::memcpy(static_cast<char*>(data) + done, from, part);
    done += part;
    // All of it must be of one sleep: after another, it begins again.
    if (lock.give_way() && save != in.saved.saves()) {
      save = in.saved.saves();
      done = 0;
    }
  }
  return kSuccess;
}

}  // namespace gpupool::internal
