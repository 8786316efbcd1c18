// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "attack/hunt/allocator.hpp"
#include "attack/hunt/bytes.hpp"

namespace hunt {
namespace {

constexpr uint64_t kStart = kGranule;  // so that no address is 0

}  // namespace

uint64_t BestFit::malloc(int pool, uint64_t bytes, int /*stream*/) {
  Arena& arena = arenas_[static_cast<size_t>(pool)];
  bytes = round_up(bytes, kUnit);
  auto found = arena.by_size.lower_bound({bytes, 0});
  if (found == arena.by_size.end()) {
    // What is free at the end is a part of what the block needs.
    uint64_t tail = 0;
    if (!arena.by_address.empty()) {
      const auto last = std::prev(arena.by_address.end());
      if (last->first + last->second == kStart + arena.end) tail = last->second;
    }
    const uint64_t grown = round_up(bytes - tail, kGranule);
    arena.end += grown;
    put(arena, kStart + arena.end - grown, grown);
    found = arena.by_size.lower_bound({bytes, 0});
  }
  const auto [size, address] = *found;
  take(arena, arena.by_address.find(address));
  if (size > bytes) put(arena, address + bytes, size - bytes);
  return address;
}

void BestFit::free(int pool, uint64_t address, uint64_t bytes, int /*stream*/) {
  bytes = round_up(bytes, kUnit);
  if (is_capturing_) {
    of_graph_.emplace_back(address, bytes);
  } else {
    put(arenas_[static_cast<size_t>(pool)], address, bytes);
  }
}

void BestFit::begin_capture(int /*stream*/) {
  for (const auto& [address, bytes] : of_graph_) put(arenas_.front(), address, bytes);
  of_graph_.clear();
  is_capturing_ = true;
}

void BestFit::end_capture(int /*stream*/) {
  is_capturing_ = false;
}

uint64_t BestFit::reserved_bytes() const {
  uint64_t bytes = 0;
  for (const Arena& arena : arenas_) bytes += arena.end;
  return bytes;
}

/// Makes a range free, as one with its free neighbours.
void BestFit::put(Arena& arena, uint64_t address, uint64_t bytes) {
  auto next = arena.by_address.lower_bound(address);
  if (next != arena.by_address.end() && next->first == address + bytes) {
    bytes += next->second;
    take(arena, next);
    next = arena.by_address.lower_bound(address);
  }
  if (next != arena.by_address.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      address = before->first;
      bytes += before->second;
      take(arena, before);
    }
  }
  arena.by_address.emplace(address, bytes);
  arena.by_size.emplace(bytes, address);
}

void BestFit::take(Arena& arena, std::map<uint64_t, uint64_t>::iterator range) {
  arena.by_size.erase({range->second, range->first});
  arena.by_address.erase(range);
}

}  // namespace hunt
