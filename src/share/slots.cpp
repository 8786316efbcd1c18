// SPDX-License-Identifier: Apache-2.0
#include "share/slots.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "share/policy.hpp"

namespace gpupool::internal::share {
namespace {

void introduce(Slot& slot, const Resident& self) noexcept {
  for (Number* each : {&slot.reserved, &slot.live, &slot.guaranteed, &slot.given, &slot.taken, &slot.ticket,
                       &slot.want, &slot.deadline, &slot.limit, &slot.wanted_guarantee, &slot.asked,
                       &slot.asked_until, &slot.dead_since, &slot.active_at}) {
    each->store(0, std::memory_order_relaxed);
  }
  slot.priority.store(0, std::memory_order_relaxed);
  slot.sleepers.store(0, std::memory_order_relaxed);
  slot.asked_to_sleep.store(0, std::memory_order_relaxed);
  slot.answered.store(slot.bell.load(), std::memory_order_relaxed);
  char name[sizeof slot.name] = {};
  std::snprintf(name, sizeof name, "%s", self.name);
  for (size_t i = 0; i < slot.name.size(); ++i) {
    uint64_t part = 0;
    std::memcpy(&part, name + i * sizeof part, sizeof part);
    slot.name[i].store(part, std::memory_order_relaxed);
  }
  slot.uid.store(self.uid, std::memory_order_relaxed);
  slot.pid.store(self.pid, std::memory_order_release);
}

}  // namespace

bool take_slot(Layout& layout, const File& file, const Resident& self, uint32_t& taken) noexcept {
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    if (!lock_slot(file, slot)) continue;
    Slot& place = layout.slots[slot];
    word::resolve(layout.header.used, slot, place.account);
    if (word::amount_of(place.account.state.load()) == 0) {
      introduce(place, self);
      taken = slot;
      return true;
    }
    unlock_slot(file, slot);  // the device must still confirm that its memory is free
  }
  return false;
}

void set_limit_of_empty(Layout& layout, uint32_t own, uint64_t limit) noexcept {
  if (limit == 0) return;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = layout.slots[slot];
    if (slot != own && (each.pid.load() != 0 || word::amount_of(each.account.state.load()) != 0)) return;
  }
  layout.header.limit.store(std::min(limit / kUnitBytes, kMostUnits));
}

bool is_passing(const Layout& region, uint32_t own, uint64_t units) noexcept {
  const Header& header = region.header;
  if (std::all_of(header.waiting.begin(), header.waiting.end(),
                  [](const Number& each) { return each.load(std::memory_order_relaxed) == 0; })) {
    return true;
  }
  const uint64_t now = now_ns();
  const Slot& self = region.slots[own];
  const int32_t priority = self.priority.load(std::memory_order_relaxed);
  const uint64_t ticket = self.ticket.load(std::memory_order_relaxed);
  uint64_t before = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = region.slots[slot];
    if (slot == own || (header.waiting[slot / 64].load(std::memory_order_relaxed) >> slot % 64 & 1) == 0) {
      continue;
    }
    // The mark of a dead or stopped member counts only for as long as that member would have waited.
    const uint64_t deadline = each.deadline.load(std::memory_order_relaxed);
    if (deadline <= now || deadline - now > kLongestWait) continue;
    const int32_t its_priority = each.priority.load(std::memory_order_relaxed);
    const bool is_earlier = ticket == 0 || each.ticket.load(std::memory_order_relaxed) < ticket;
    if (its_priority > priority || (its_priority == priority && is_earlier)) {
      before += std::min(units_of(each.want.load(std::memory_order_relaxed)), kMostUnits);
    }
  }
  const uint64_t used = word::used_of(header.used.load(std::memory_order_relaxed));
  return used + units + before <= header.limit.load(std::memory_order_relaxed);
}

double beyond_share(const Layout& region, uint32_t own) noexcept {
  const auto members = std::count_if(region.slots.begin(), region.slots.end(),
                                     [](const Slot& each) { return each.pid.load() != 0; });
  const auto limit = static_cast<double>(region.header.limit.load() * kUnitBytes);
  const double share = limit / static_cast<double>(std::max<ptrdiff_t>(members, 1));
  return static_cast<double>(region.slots[own].reserved.load()) / std::max(share, 1.0) - 1;
}

// ---- the dead

namespace {

/// What the device should have free once `slot` holds nothing, if only members used it, plus what was foreign
/// at the last quiet moment.
uint64_t expected_free(const Layout& layout, uint32_t without) noexcept {
  uint64_t held = layout.header.foreign.load(std::memory_order_relaxed);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = layout.slots[slot];
    const bool counts = slot != without && each.pid.load(std::memory_order_relaxed) != 0;
    if (counts) held += each.reserved.load(std::memory_order_relaxed);
  }
  const uint64_t total = layout.header.begin.device_bytes;
  return held < total ? total - held : 0;
}

bool is_confirmed(const Layout& layout, uint32_t slot, uint64_t bytes, uint64_t dead_for,
                  uint64_t free) noexcept {
  if (dead_for >= policy::kLimboNs || bytes == 0) return true;
  if (free == ~uint64_t{0}) return false;
  return free >= expected_free(layout, slot) || (dead_for >= policy::kStrictNs && free >= bytes);
}

/// Recovers what a dead member left; the caller holds its place. Returns how much stays in limbo.
uint64_t refund_dead(Layout& layout, uint32_t slot, uint64_t free) noexcept {
  Slot& dead = layout.slots[slot];
  word::resolve(layout.header.used, slot, dead.account);
  const int64_t amount = word::amount_of(dead.account.state.load());
  const uint64_t now = now_ns();
  uint64_t since = dead.dead_since.load();
  if (since == 0 || since > now) dead.dead_since.store(since = now);
  // An unused guarantee is no member's memory.
  const uint64_t bytes = std::min(dead.reserved.load(), layout.header.begin.device_bytes);
  if (!is_confirmed(layout, slot, bytes, now - since, free))
    return static_cast<uint64_t>(amount) * kUnitBytes;
  const auto account = [&](uint32_t at) -> Account& { return account_of(layout, at); };
  if (amount != 0) (void)word::change(layout.header.used, account, slot, -amount, kMostUnits);
  layout.header.waiting[slot / 64].fetch_and(~(uint64_t{1} << slot % 64));
  dead.reserved.store(0);
  dead.pid.store(0);
  dead.dead_since.store(0);
  ring(layout.header.freed);
  return 0;
}

}  // namespace

uint64_t refund_the_dead(Layout& layout, const File& file, uint64_t free) noexcept {
  uint64_t limbo = 0;
  bool is_quiet = free != ~uint64_t{0};
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    Slot& each = layout.slots[slot];
    const uint64_t number = word::number_of(each.account.intent.load());
    const bool is_open = number == word::after(word::number_of(each.account.state.load()));
    if (each.pid.load() == 0 && word::amount_of(each.account.state.load()) == 0 && !is_open) continue;
    if (!lock_slot(file, slot)) continue;
    limbo += refund_dead(layout, slot, free);
    is_quiet = false;
    unlock_slot(file, slot);
  }
  if (is_quiet) {
    const uint64_t members = layout.header.begin.device_bytes - expected_free(layout, kSlots);
    const uint64_t foreign = layout.header.foreign.load();
    const uint64_t held = layout.header.begin.device_bytes - std::min(free, layout.header.begin.device_bytes);
    const uint64_t of_members = members - std::min(members, foreign);
    layout.header.foreign.store(held - std::min(held, of_members));
  }
  return limbo;
}

}  // namespace gpupool::internal::share
