// SPDX-License-Identifier: Apache-2.0
// A thread's free blocks by stream.
#pragma once

#include <array>

#include "core/quick_bins.hpp"

namespace gpupool::internal {

/// An empty lane.
inline constexpr Stream kNoStream = GPUPOOL_STREAM_UNKNOWN;

/// What the heaps of a released stream, or of a capture, are called: no caller's stream is.
inline constexpr Stream kNoLane = GPUPOOL_STREAM_UNKNOWN - 1;

/// Quick bins of one stream.
struct Lane {
  std::array<QuickBins, kGroups> groups;
  Stream stream = kNoStream;
  Lane* next_spare = nullptr;

  QuickBins& bins(SizeGroup group) noexcept { return groups[static_cast<size_t>(index_of(group))]; }
  bool empty() const noexcept { return groups[0].empty() && groups[1].empty(); }

  /// Takes up to `most` blocks, which it counts down, and puts them in front of the list `taken`.
  Range* drain(size_t& most, Range* taken = nullptr) noexcept {
    for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) taken = bins(group).drain(most, taken);
    return taken;
  }
  /// Whether nothing is in it, and nothing was taken from it since rest().
  bool is_idle() const noexcept { return empty() && !groups[0].was_touched() && !groups[1].was_touched(); }
  void rest() noexcept {
    for (QuickBins& bins : groups) bins.rest();
  }
};

/// The lanes of a cache: as many as its thread uses streams, up to kMost. An open hash table says which is
/// whose; where a stream is at home in it, nothing else is looked at. The table changes under the pool's lock
/// and the cache's, so that with either it can be read. It does not own its lanes.
class Lanes {
 public:
  /// More would serve few programs, and each is two kilobytes that a thread may keep.
  static constexpr size_t kMost = 64;

  struct Place {
    Stream stream;
    Lane* lane;                              // never null
    std::array<QuickBins*, kGroups> groups;  // its bins, at hand

    QuickBins& bins(SizeGroup group) const noexcept { return *groups[static_cast<size_t>(index_of(group))]; }
  };

  /// Where a stream is at home, whoever is there. An empty place has a lane in which nothing is.
  const Place& home(Stream stream) const noexcept { return places_[home_of(stream)]; }

  /// The lane of a stream, or null.
  Lane* find(Stream stream) const noexcept {
    const Place& place = home(stream);
    return place.stream == stream && stream != kNoStream ? place.lane : find_further(stream);
  }

  bool empty() const noexcept { return count_ == 0; }
  bool is_full() const noexcept { return count_ == kMost; }

  /// Gives a stream that has none a lane; not when full.
  void open(Stream stream, Lane* lane) noexcept;
  /// Takes its lane, with what is in it, from a stream that has one.
  Lane* close(Stream stream) noexcept;
  /// The next in turn that is to make room for another.
  Lane* victim() noexcept;

  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < count_; ++i) visit(*lanes_[i]);
  }

  /// Re-derives everything.
  bool is_valid() const noexcept;

 private:
  static constexpr unsigned kPlaceBits = 8;
  static constexpr size_t kPlaces = size_t{1} << kPlaceBits;

  /// Streams are pointers or small numbers.
  static size_t home_of(Stream stream) noexcept { return hash_to(kPlaceBits, stream); }
  static size_t after(size_t place) noexcept { return (place + 1) % kPlaces; }
  static Lane nobodys_;
  static Place place_for(Stream stream, Lane& lane) noexcept {
    return {stream, &lane, {&lane.groups[0], &lane.groups[1]}};
  }
  Lane* find_further(Stream stream) const noexcept;

  std::array<Place, kPlaces> places_ = empty_places();
  std::array<Lane*, kMost> lanes_{};
  size_t count_ = 0;
  size_t turn_ = 0;

  static std::array<Place, kPlaces> empty_places() noexcept;
};

}  // namespace gpupool::internal
