// SPDX-License-Identifier: Apache-2.0
// Physical memory, and the lists in which free chunks wait.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/size.hpp"

namespace gpupool {

class Heap;
struct Region;

/// Physical memory from the device, or a segment of the driver's own malloc. Mapped at one address as far as
/// the heaps know; an old mapping that is still to be removed is a retired range.
struct Chunk {
  uint64_t handle = 0;  // the device's name for it
  uint64_t size = 0;    // a multiple of kGranule, but for segments
  Address address = 0;  // 0: not mapped, in hand
  Heap* heap = nullptr;
  Region* region = nullptr;
  /// Blocks that touch it: live, cached or pending. At 0 it is free, and in a list of its heap.
  uint32_t users = 0;
  /// When it became free: the open epoch of its heap's stream, and the pool's count of such events.
  uint64_t epoch = 0;
  uint64_t age = 0;
  /// Old mappings of it that are still to be removed: its memory does not return to the device before.
  uint32_t old_mappings = 0;
  Chunk* prev = nullptr;
  Chunk* next = nullptr;

  Address end() const noexcept { return address + size; }
};

/// Free chunks by power of two of their size, the oldest first.
class ChunkLists {
 public:
  static constexpr size_t kClasses = 24;

  static size_t class_of(uint64_t size) noexcept {
    const uint64_t granules = (size + kGranule - 1) / kGranule;
    const size_t bits = log2_floor(granules);
    return bits < kClasses ? bits : kClasses - 1;
  }

  void push(Chunk* chunk) noexcept {
    List& list = lists_[class_of(chunk->size)];
    chunk->prev = list.last;
    chunk->next = nullptr;
    (list.last != nullptr ? list.last->next : list.first) = chunk;
    list.last = chunk;
    ++list.count;
    list.latest = std::max(list.latest, chunk->epoch);
    bytes_ += chunk->size;
  }

  void remove(Chunk* chunk) noexcept {
    List& list = lists_[class_of(chunk->size)];
    (chunk->prev != nullptr ? chunk->prev->next : list.first) = chunk->next;
    (chunk->next != nullptr ? chunk->next->prev : list.last) = chunk->prev;
    chunk->prev = chunk->next = nullptr;
    --list.count;
    bytes_ -= chunk->size;
  }

  /// The oldest of a class; go on with ->next.
  Chunk* oldest(size_t size_class) const noexcept { return lists_[size_class].first; }

  size_t count(size_t size_class) const noexcept { return lists_[size_class].count; }

  /// An epoch that no chunk of the class is later than.
  uint64_t latest_epoch(size_t size_class) const noexcept { return lists_[size_class].latest; }

  /// The oldest of all, or null.
  Chunk* oldest() const noexcept {
    Chunk* best = nullptr;
    for (const List& list : lists_) {
      if (list.first != nullptr && (best == nullptr || list.first->age < best->age)) best = list.first;
    }
    return best;
  }

  uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct List {
    Chunk* first = nullptr;
    Chunk* last = nullptr;
    size_t count = 0;
    uint64_t latest = 0;
  };
  std::array<List, kClasses> lists_{};
  uint64_t bytes_ = 0;
};

}  // namespace gpupool
