// SPDX-License-Identifier: Apache-2.0
#include "device/sim/chunks.hpp"

#include "base/defer.hpp"

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

}  // namespace

Status SimChunks::create(uint64_t size, ChunkHandle& chunk) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "create_chunk of %llu bytes: not whole granules",
                          Long{size});
  }
  if (const Status status = capacity_.charge(size); status != kSuccess) return status;
  Defer undo([&] { capacity_.refund(size); });
  uint64_t offset = 0;
  if (const Status status = backing_.create(size, offset); status != kSuccess) return status;
  chunks_.emplace(next_, Chunk{size, offset, 0, false, false, false});
  undo.cancel();
  chunk = next_++;
  return kSuccess;
}

Status SimChunks::release(ChunkHandle chunk) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end() || found->second.released) {
    return faults_.refuse(driver_code::kInvalidValue, "release_chunk of %llu: no such chunk", Long{chunk});
  }
  found->second.released = true;
  release_if_unused(found);
  return kSuccess;
}

/// Memory returns to the device when no handle, no mapping and no other holder keeps the chunk.
void SimChunks::release_if_unused(Chunks::iterator chunk) noexcept {
  const Chunk& state = chunk->second;
  if (!state.released || state.mappings != 0 || state.held) return;
  if (!state.imported) capacity_.refund(state.size);
  backing_.discard(state.offset, state.size);
  chunks_.erase(chunk);
}

Status SimChunks::export_chunk(ChunkHandle chunk, SharedChunk& shared) {
  const Chunk* const found = find(chunk);
  if (found == nullptr) {
    return faults_.refuse(driver_code::kInvalidValue, "export_chunk of %llu: no such chunk", Long{chunk});
  }
  return backing_.export_part(found->offset, shared);
}

Status SimChunks::import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "import_chunk of %llu bytes: not whole granules",
                          Long{size});
  }
  uint64_t offset = 0;
  if (const Status status = backing_.import_part(shared, size, offset); status != kSuccess) return status;
  Defer undo([&] { backing_.discard(offset, size); });
  chunks_.emplace(next_, Chunk{size, offset, 0, false, false, true});
  undo.cancel();
  chunk = next_++;
  return kSuccess;
}

const SimChunks::Chunk* SimChunks::find(ChunkHandle chunk) const {
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() || found->second.released ? nullptr : &found->second;
}

uint64_t SimChunks::size_of(ChunkHandle chunk) const {
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() ? 0 : found->second.size;
}

void SimChunks::attach(ChunkHandle chunk) noexcept {
  ++chunks_.find(chunk)->second.mappings;
}

void SimChunks::detach(ChunkHandle chunk) noexcept {
  const auto found = chunks_.find(chunk);
  --found->second.mappings;
  release_if_unused(found);
}

void SimChunks::hold(ChunkHandle chunk) noexcept {
  chunks_.find(chunk)->second.held = true;
}

void SimChunks::end_holds() noexcept {
  for (auto it = chunks_.begin(); it != chunks_.end();) {
    const auto chunk = it++;
    chunk->second.held = false;
    release_if_unused(chunk);
  }
}

}  // namespace gpupool::internal
