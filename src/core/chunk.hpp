// SPDX-License-Identifier: Apache-2.0
// Physical memory, and the lists in which free chunks wait.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "core/list.hpp"
#include "core/size.hpp"

namespace gpupool::internal {

class Heap;
struct Region;

/// Physical memory from the device, or a segment of the driver's own malloc. As far as the heaps know, it is
/// mapped at one address; an old mapping that still has to be removed is a retired range.
struct Chunk {
  uint64_t handle = 0;  // the device's name for it
  uint64_t size = 0;    // a multiple of kGranule, except for segments
  Address address = 0;  // 0: not mapped, in hand
  Heap* heap = nullptr;
  Region* region = nullptr;
  /// Blocks that touch it: live, cached or pending. At 0 it is free, and in a list of its heap.
  uint32_t users = 0;
  /// The moment it became free: the open epoch of its heap's stream.
  uint64_t epoch = 0;
  /// The moment it became free or, of one that blocks touch, was taken: see Space::next_serial().
  uint64_t serial = 0;
  /// Its old mappings that still have to be removed; until then its memory does not return to the device.
  uint32_t old_mappings = 0;
  uint32_t cached_users = 0;  // scratch of whoever counts them
  /// How many of them are unmapped while the pool sleeps: all, before the memory goes.
  uint32_t old_unmapped = 0;
  /// Its pool or block sleeps: the contents are saved or dropped, and the handle is 0 once the device has the
  /// memory.
  bool asleep = false;
  bool unmapped = false;  // of one that is asleep
  bool alone = false;     // of one that is asleep: with its block, in a pool that was awake
  Chunk* prev = nullptr;  // in a list of its heap's, or of those in hand
  Chunk* next = nullptr;
  Chunk* shared_prev = nullptr;  // in a list of the space's
  Chunk* shared_next = nullptr;

  Address end() const noexcept { return address + size; }
};

using ChunkList = List<Chunk, &Chunk::prev, &Chunk::next>;

/// Free chunks by the power of two of their size, those that became free first in front.
template <Chunk* Chunk::*kPrev, Chunk* Chunk::*kNext>
class ChunkClasses {
 public:
  static constexpr size_t kClasses = 24;

  static size_t class_of(uint64_t size) noexcept {
    const uint64_t granules = (size + kGranule - 1) / kGranule;
    const size_t bits = log2_floor(granules);
    return bits < kClasses ? bits : kClasses - 1;
  }

  void push(Chunk* chunk) noexcept {
    lists_[class_of(chunk->size)].push_back(chunk);
    bytes_ += chunk->size;
  }

  void remove(Chunk* chunk) noexcept {
    lists_[class_of(chunk->size)].remove(chunk);
    bytes_ -= chunk->size;
  }

  /// The oldest of a class; go on with after().
  Chunk* oldest(size_t size_class) const noexcept { return lists_[size_class].first(); }
  static Chunk* after(const Chunk* chunk) noexcept { return chunk->*kNext; }

  size_t count(size_t size_class) const noexcept { return lists_[size_class].count(); }

  uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::array<List<Chunk, kPrev, kNext>, kClasses> lists_{};
  uint64_t bytes_ = 0;
};

/// The lists of one heap, and those of all heaps that share their chunks.
using ChunkLists = ChunkClasses<&Chunk::prev, &Chunk::next>;
using SharedChunkLists = ChunkClasses<&Chunk::shared_prev, &Chunk::shared_next>;

/// Supplies records of chunks, each as often as it is given back.
class ChunkStore {
 public:
  /// A blank one. Throws std::bad_alloc.
  Chunk* get() {
    if (spare_ == nullptr) return &records_.emplace_back();
    Chunk* chunk = spare_;
    spare_ = chunk->next;
    chunk->next = nullptr;
    return chunk;
  }
  void recycle(Chunk* chunk) noexcept {
    *chunk = {};
    chunk->next = spare_;
    spare_ = chunk;
  }

  /// All records, the spare ones too, whose size is 0. They come to more, and never go.
  size_t count() const noexcept { return records_.size(); }
  const Chunk& at(size_t index) const noexcept { return records_[index]; }

 private:
  std::deque<Chunk> records_;
  Chunk* spare_ = nullptr;
};

}  // namespace gpupool::internal
