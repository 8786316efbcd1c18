// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/walk.hpp"

#include <algorithm>

namespace gpupool::cli {
namespace {

uint64_t overlap(uint64_t begin, uint64_t end, uint64_t other_begin, uint64_t other_end) {
  const uint64_t from = std::max(begin, other_begin);
  const uint64_t to = std::min(end, other_end);
  return from < to ? to - from : 0;
}

}  // namespace

PoolWalk::Chunks::iterator PoolWalk::first_chunk(uint64_t begin) {
  auto found = chunks_.upper_bound(begin);
  if (found != chunks_.begin()) {
    const auto before = std::prev(found);
    if (before->first + before->second.bytes > begin) found = before;
  }
  return found;
}

void PoolWalk::map(const Happened& event) {
  const uint64_t end = event.address + event.bytes;
  // A chunk that is already known, as when a recording began meanwhile.
  for (auto at = first_chunk(event.address); at != chunks_.end() && at->first < end;) {
    reserved_bytes_ -= at->second.bytes;
    if (at->second.users == 0) idle_bytes_ -= at->second.bytes;
    at = chunks_.erase(at);
  }
  if (unmapped_ == Range(event.address, end)) {
    for (const auto& [address, bytes] : unmapped_chunks_) add_chunk(address, bytes, event.stream);
  } else {
    add_chunk(event.address, event.bytes, event.stream);
  }
  unmapped_ = {};
}

void PoolWalk::add_chunk(uint64_t address, uint64_t bytes, uint64_t stream) {
  MappedChunk chunk{bytes, stream};
  auto block = blocks_.upper_bound(address);
  if (block != blocks_.begin()) --block;
  for (; block != blocks_.end() && block->first < address + bytes; ++block) {
    const uint64_t shared =
        overlap(address, address + bytes, block->first, block->first + rounded(block->second.made->bytes));
    chunk.live_bytes += shared;
    chunk.users += shared != 0 ? 1 : 0;
  }
  reserved_bytes_ += bytes;
  if (chunk.users == 0) idle_bytes_ += bytes;
  chunks_[address] = chunk;
}

void PoolWalk::unmap(const Happened& event) {
  const uint64_t end = event.address + event.bytes;
  unmapped_ = {event.address, end};
  unmapped_chunks_.clear();
  for (auto at = first_chunk(event.address); at != chunks_.end() && at->first < end;) {
    const auto [begin, chunk] = *at;
    reserved_bytes_ -= chunk.bytes;
    if (chunk.users == 0) idle_bytes_ -= chunk.bytes;
    at = chunks_.erase(at);
    // A part of a segment of PyTorch's can go.
    const uint64_t chunk_end = begin + chunk.bytes;
    if (begin < event.address) add_chunk(begin, event.address - begin, chunk.stream);
    if (chunk_end > end) add_chunk(end, chunk_end - end, chunk.stream);
    unmapped_chunks_.emplace_back(std::max(begin, event.address),
                                  overlap(begin, chunk_end, event.address, end));
  }
}

void PoolWalk::touch(const Happened& made, bool begins) {
  const uint64_t end = made.address + rounded(made.bytes);
  for (auto at = first_chunk(made.address); at != chunks_.end() && at->first < end; ++at) {
    MappedChunk& chunk = at->second;
    const uint64_t shared = overlap(made.address, end, at->first, at->first + chunk.bytes);
    if (begins && chunk.users++ == 0) idle_bytes_ -= chunk.bytes;
    chunk.live_bytes += begins ? shared : uint64_t{0} - shared;
    if (!begins && chunk.users != 0 && --chunk.users == 0) idle_bytes_ += chunk.bytes;
  }
}

uint64_t PoolWalk::largest_free() const {
  uint64_t largest = 0;
  uint64_t begin = 0;  // of the current free run
  uint64_t end = 0;    // of what is backed without a gap
  uint64_t stream = 0;
  auto block = blocks_.begin();
  for (const auto& [address, chunk] : chunks_) {
    if (address != end || chunk.stream != stream) begin = address;
    end = address + chunk.bytes;
    stream = chunk.stream;
    for (; block != blocks_.end() && block->first < end; ++block) {
      if (block->first > begin) largest = std::max(largest, block->first - begin);
      begin = std::max(begin, block->first + rounded(block->second.made->bytes));
    }
    if (end > begin) largest = std::max(largest, end - begin);
  }
  return largest;
}

size_t events_until_peak(const Recording& recording, uint64_t pool) {
  LiveBlocks blocks;
  uint64_t live = 0;
  uint64_t most = 0;
  size_t at = recording.events.size();
  for (size_t i = 0; i < recording.events.size(); ++i) {
    if (recording.events[i].pool != pool) continue;
    blocks.take(
        recording.events[i], [&](const LiveBlock& block) { live += rounded(block.made->bytes); },
        [&](const LiveBlock& block, const Happened&) { live -= rounded(block.made->bytes); });
    if (live <= most) continue;
    most = live;
    at = i + 1;
  }
  return at;
}

}  // namespace gpupool::cli
