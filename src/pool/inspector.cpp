// SPDX-License-Identifier: Apache-2.0
#include "pool/inspector.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "pool/metered_device.hpp"
#include "pool/streams.hpp"

namespace gpupool::internal {

Status Inspector::begin() {
  return device_.allocate(Kind::pinned, kSlots * kRoom, 0, memory_);
}

void Inspector::end() noexcept {
  looks_.clear();
  used_ = 0;
  if (memory_ != 0) (void)device_.deallocate(Kind::pinned, std::exchange(memory_, 0), kSlots * kRoom, 0);
}

bool Inspector::look_behind(const BlockRecord& life, StreamState& state) noexcept {
  return queue(life, false, {{{life.requested, life.room - life.requested}, {0, 0}}}, state);
}

bool Inspector::look_inside(const BlockRecord& life, StreamState& state) noexcept {
  constexpr uint64_t kHalf = kRoom / 2;
  const uint64_t size = align_down(life.requested, sizeof(uint32_t));
  if (size <= kRoom) return queue(life, true, {{{0, size}, {0, 0}}}, state);
  return queue(life, true, {{{0, kHalf}, {size - kHalf, kHalf}}}, state);
}

/// Slots are given out and freed in turn, so those in use are one run.
bool Inspector::queue(const BlockRecord& life, bool inside, std::array<Part, 2> parts,
                      StreamState& state) noexcept {
  if (memory_ == 0 || !has_place()) return false;
  const Look look{life, inside, parts, &state, state.order.stamp(), next_};
  try {
    looks_.push_back(look);
  } catch (const std::bad_alloc&) {
    return false;
  }
  Address to = memory_ + look.slot * kRoom;
  for (const Part& part : parts) {
    if (part.size == 0) continue;
    const Address from = life.address + part.offset;
    const Status status = device_.transfer(to, from, part.size, state.order.stream());
    if (status != kSuccess) {
      looks_.pop_back();
      return false;
    }
    to += part.size;
  }
  next_ = (next_ + 1) % kSlots;
  ++used_;
  return true;
}

/// Whether a byte differs, and which.
bool Inspector::examine(const Look& look, Finding& finding) const noexcept {
  const auto* bytes = reinterpret_cast<const uint8_t*>(memory_ + look.slot * kRoom);
  const uint8_t canary = canary_of(look.block.number);
  uint8_t poison[sizeof kFreePoison];
  std::memcpy(poison, &kFreePoison, sizeof poison);
  finding = {};
  for (const Part& part : look.parts) {
    for (uint64_t i = 0; i < part.size; ++i, ++bytes) {
      const uint64_t at = part.offset + i;
      if (*bytes == (look.inside ? poison[at % sizeof poison] : canary)) continue;
      if (finding.count++ == 0) finding.first = at;
      finding.last = at;
      if (finding.shown < finding.bytes.size() && at == finding.first + finding.shown)
        finding.bytes[finding.shown++] = *bytes;
    }
  }
  finding.block = look.block;
  finding.after_free = look.inside;
  return finding.count != 0;
}

void Inspector::compare(std::vector<Finding>& found) {
  while (!looks_.empty() && looks_.front().state->order.passed(looks_.front().epoch)) {
    Finding finding;
    if (examine(looks_.front(), finding)) found.push_back(finding);
    looks_.pop_front();
    --used_;
  }
}

}  // namespace gpupool::internal
