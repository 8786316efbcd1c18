// SPDX-License-Identifier: Apache-2.0
// A thread's free blocks by stream.
#pragma once

#include <algorithm>
#include <array>

#include "core/quick_bins.hpp"

namespace gpupool::internal {

/// The stream of a lane that no cache has, and of an empty slot.
inline constexpr Stream kNoStream = GPUPOOL_STREAM_UNKNOWN;

/// The lane_stream() of heaps whose frees take the long way. No caller's stream has this number.
inline constexpr Stream kNoLane = GPUPOOL_STREAM_UNKNOWN - 1;

/// Quick bins of one stream.
struct Lane {
  QuickBins bins;
  Stream stream = kNoStream;
  /// How many bytes may be freed before the stream's user looks whether others want them; then the next such
  /// step (Streams::pace_of).
  int64_t until_look = kGranule;
  int64_t step = 0;

  /// Keeps a freed block. True: it is time to look, with count_down().
  bool push(Range* block, uint64_t bytes) noexcept {
    bins.push(block);
    until_look -= static_cast<int64_t>(bytes);
    return until_look < 0;
  }

  void count_down(uint64_t longest) noexcept {
    constexpr auto kShortest = static_cast<int64_t>(kGranule);
    step = std::clamp(2 * step, kShortest, static_cast<int64_t>(longest));
    until_look = step;
  }
  Lane* next_spare = nullptr;

  /// Takes up to `most` blocks, counts `most` down by them, and returns them in front of the list `taken`.
  Range* drain(size_t& most, Range* taken = nullptr) noexcept {
    for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) taken = bins.drain(group, most, taken);
    return taken;
  }
  /// Whether it is empty, and no malloc has touched it since rest().
  bool is_idle() const noexcept {
    return bins.empty() && !bins.was_touched(SizeGroup::small) && !bins.was_touched(SizeGroup::large);
  }
};

/// The lanes of a cache: one for each stream that its thread uses, up to kMost. An open hash table finds the
/// lane of a stream; if the stream is in its home slot, one look is enough. The table changes only under
/// both the pool's lock and the cache's, so either lock is enough to read it. It does not own its lanes.
class Lanes {
 public:
  /// More lanes would serve few programs, and each costs a thread 17 KiB.
  static constexpr size_t kMost = 64;

  struct Slot {
    Stream stream;
    Lane* lane;  // never null
  };

  /// The home slot of a stream, which another stream may have taken. An empty slot has an empty lane.
  const Slot& home(Stream stream) const noexcept { return slots_[home_of(stream)]; }

  /// The lane of a stream, or null.
  Lane* find(Stream stream) const noexcept {
    const Slot& slot = home(stream);
    return slot.stream == stream && stream != kNoStream ? slot.lane : probe(stream);
  }

  /// The lane of a stream that is not in its home slot, or null.
  Lane* find_elsewhere(Stream stream) const noexcept {
    return home(stream).stream == stream ? nullptr : probe(stream);
  }

  bool empty() const noexcept { return count_ == 0; }
  bool is_full() const noexcept { return count_ == kMost; }

  /// Gives a lane to a stream that has none. Call it only if it is not full.
  void open(Stream stream, Lane* lane) noexcept;
  /// Removes the lane of a stream that has one, and returns it with what is in it.
  Lane* close(Stream stream) noexcept;
  /// The next lane, in turn, that has to make room for another.
  Lane* victim() noexcept;

  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < count_; ++i) visit(*lanes_[i]);
  }

  /// Checks the table against the lanes.
  bool is_valid() const noexcept;

 private:
  static constexpr unsigned kSlotBits = 8;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;

  /// Hashes the number, since streams are pointers or small numbers.
  static size_t home_of(Stream stream) noexcept { return hash_to(kSlotBits, stream); }
  static size_t after(size_t slot) noexcept { return (slot + 1) % kSlots; }
  static Lane nobodys_;
  Lane* probe(Stream stream) const noexcept;

  std::array<Slot, kSlots> slots_ = empty_slots();
  std::array<Lane*, kMost> lanes_{};
  size_t count_ = 0;
  size_t turn_ = 0;

  static std::array<Slot, kSlots> empty_slots() noexcept;
};

}  // namespace gpupool::internal
