// SPDX-License-Identifier: Apache-2.0
#include "pool/cache/lanes.hpp"

#include <algorithm>

namespace gpupool::internal {

/// The lane of empty places. Nothing is ever pushed into it.
constinit Lane Lanes::nobodys_;

std::array<Lanes::Place, Lanes::kPlaces> Lanes::empty_places() noexcept {
  std::array<Place, kPlaces> places;
  places.fill({kNoStream, &nobodys_});
  return places;
}

Lane* Lanes::find_further(Stream stream) const noexcept {
  if (stream == kNoStream) return nullptr;
  for (size_t at = home_of(stream);; at = after(at)) {
    if (places_[at].stream == stream) return places_[at].lane;
    if (places_[at].stream == kNoStream) return nullptr;
  }
}

void Lanes::open(Stream stream, Lane* lane) noexcept {
  size_t at = home_of(stream);
  while (places_[at].stream != kNoStream) at = after(at);
  places_[at] = {stream, lane};
  lane->stream = stream;
  lanes_[count_++] = lane;
}

Lane* Lanes::close(Stream stream) noexcept {
  size_t hole = home_of(stream);
  while (places_[hole].stream != stream) hole = after(hole);
  Lane* lane = places_[hole].lane;
  // Entries that had passed this place move up, so that a search may still end at the first empty one.
  for (size_t at = after(hole); places_[at].stream != kNoStream; at = after(at)) {
    const size_t home = home_of(places_[at].stream);
    if ((at - home) % kPlaces < (at - hole) % kPlaces) continue;
    places_[hole] = places_[at];
    hole = at;
  }
  places_[hole] = {kNoStream, &nobodys_};
  *std::find(lanes_.begin(), lanes_.end(), lane) = lanes_[--count_];
  lanes_[count_] = nullptr;
  lane->stream = kNoStream;
  return lane;
}

Lane* Lanes::victim() noexcept {
  turn_ = turn_ + 1 < count_ ? turn_ + 1 : 0;
  return lanes_[turn_];
}

bool Lanes::is_valid() const noexcept {
  size_t taken = 0;
  for (const Place& place : places_) {
    if (place.stream == kNoStream) continue;
    ++taken;
    if (place.lane->stream != place.stream || find(place.stream) != place.lane) return false;
  }
  const auto is_known = [this](const Lane* lane) { return find(lane->stream) == lane; };
  return taken == count_ && std::all_of(lanes_.begin(), lanes_.begin() + count_, is_known) &&
         nobodys_.bins.empty();
}

}  // namespace gpupool::internal
