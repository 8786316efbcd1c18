// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/quarantine.hpp"

#include <algorithm>
#include <utility>

#include "pool/stream/streams.hpp"

namespace gpupool::internal {

void Quarantine::add(Range& block) noexcept {
  block.link = nullptr;
  (last_ != nullptr ? last_->link : first_) = &block;
  last_ = &block;
  held_ += block.size;
  ++count_;
}

Range& Quarantine::take() noexcept {
  Range& block = *std::exchange(first_, first_->link);
  if (first_ == nullptr) last_ = nullptr;
  held_ -= block.size;
  --count_;
  return block;
}

bool Quarantine::is_full(uint64_t used) const noexcept {
  if (!is_for_looks()) return held_ > bytes_;
  return count_ == kMostWaiting || held_ > std::max(kWaitingAlways, used / kWaitingParts);
}

/// Looks, in one call, at those of the oldest blocks that are one stream's, until the others have at most so
/// many bytes. Returns the first of the others.
const Range* Quarantine::look_at_oldest(uint64_t bytes) noexcept {
  StreamState& state = heap_of(*first_).state();
  Looks looks;
  uint64_t left = held_;
  Range* end = first_;
  for (; left > bytes && &heap_of(*end).state() == &state && !looks.is_full(); end = end->link) {
    if (BlockRecord* life = history_.find(end->address); life != nullptr) add_looks(*life, looks);
    left -= end->size;  // 0 behind the last one
  }
  inspector_.queue(looks, state);
  return end;
}

/// What is to be seen of a freed block. It is looked at once.
void Quarantine::add_looks(BlockRecord& life, Looks& looks) const noexcept {
  if (std::exchange(life.has_canary, false)) looks.add_behind(life);
  // Nobody's for a while, it must still be as it was filled.
  if (std::exchange(life.is_poisoned, false) && !is_for_looks()) looks.add_inside(life);
}

void Quarantine::look_at(Stream stream) noexcept {
  for (Range* block = first_; block != nullptr; block = block->link) {
    StreamState& state = heap_of(*block).state();
    BlockRecord* life = history_.find(block->address);
    if (life == nullptr || state.order.stream() != stream || !inspector_.may_queue(state)) continue;
    look_at(*life, state);
  }
}

void Quarantine::look_at(BlockRecord& life, StreamState& state) noexcept {
  Looks looks;
  add_looks(life, looks);
  inspector_.queue(looks, state);
}

}  // namespace gpupool::internal
