// SPDX-License-Identifier: Apache-2.0
#include "pool/cache/lanes.hpp"

#include <algorithm>

namespace gpupool::internal {

/// The lane of empty slots. Nothing is ever pushed into it.
constinit Lane Lanes::nobodys_;

std::array<Lanes::Slot, Lanes::kSlots> Lanes::empty_slots() noexcept {
  std::array<Slot, kSlots> slots;
  slots.fill({kNoStream, &nobodys_});
  return slots;
}

Lane* Lanes::probe(Stream stream) const noexcept {
  if (stream == kNoStream) return nullptr;
  for (size_t at = home_of(stream);; at = after(at)) {
    if (slots_[at].stream == stream) return slots_[at].lane;
    if (slots_[at].stream == kNoStream) return nullptr;
  }
}

void Lanes::open(Stream stream, Lane* lane) noexcept {
  size_t at = home_of(stream);
  while (slots_[at].stream != kNoStream) at = after(at);
  slots_[at] = {stream, lane};
  lane->stream = stream;
  lanes_[count_++] = lane;
}

Lane* Lanes::close(Stream stream) noexcept {
  size_t hole = home_of(stream);
  while (slots_[hole].stream != stream) hole = after(hole);
  Lane* lane = slots_[hole].lane;
  // Entries that had passed this slot move up, so that a search may still end at the first empty one.
  for (size_t at = after(hole); slots_[at].stream != kNoStream; at = after(at)) {
    const size_t home = home_of(slots_[at].stream);
    if ((at - home) % kSlots < (at - hole) % kSlots) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {kNoStream, &nobodys_};
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
  for (const Slot& slot : slots_) {
    if (slot.stream == kNoStream) continue;
    ++taken;
    if (slot.lane->stream != slot.stream || find(slot.stream) != slot.lane) return false;
  }
  const auto is_known = [this](const Lane* lane) { return find(lane->stream) == lane; };
  return taken == count_ && std::all_of(lanes_.begin(), lanes_.begin() + count_, is_known) &&
         nobodys_.bins.empty();
}

}  // namespace gpupool::internal
