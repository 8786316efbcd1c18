// SPDX-License-Identifier: Apache-2.0
#include "share/member.hpp"

#include <errno.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/defer.hpp"
#include "base/lasting.hpp"
#include "os/clock.hpp"
#include "os/mutex.hpp"
#include "os/process.hpp"

namespace gpupool::internal::share {
namespace {

constinit os::Mutex members_mutex;
constinit Lasting<std::unique_ptr<std::vector<std::weak_ptr<Member>>>> the_members;

constexpr uint64_t units_of(uint64_t bytes) noexcept {
  return bytes / kUnitBytes + (bytes % kUnitBytes != 0 ? 1 : 0);
}

/// The member of this process in that region, if there is one.
std::shared_ptr<Member> find(const Place& place) {
  if (the_members.value == nullptr) return nullptr;
  for (const auto& each : *the_members.value) {
    std::shared_ptr<Member> member = each.lock();
    if (member != nullptr && member->is_member() && member->place().path() == place.path()) return member;
  }
  return nullptr;
}

std::shared_ptr<Member> find_locked(const Place& place) {
  const std::lock_guard lock(members_mutex);
  return find(place);
}

}  // namespace

Status join(const Place& place, uint64_t free, std::unique_ptr<Owner> owner,
            std::shared_ptr<Member>& member) {
  BrokerCall call;
  if (!place.socket.empty()) {
    // A broker may be slow, and whoever holds the lock keeps others from forking.
    if ((member = find_locked(place)) != nullptr) return kSuccess;
    if (const Status status = call.ask(place, true); status != kSuccess) return status;
  }
  const std::lock_guard lock(members_mutex);
  auto& members = the_members.value;
  if (members == nullptr) members = std::make_unique<std::vector<std::weak_ptr<Member>>>();
  member = find(place);
  if (member != nullptr) return kSuccess;
  std::erase_if(*members, [](const auto& each) { return each.expired(); });
  members->reserve(members->size() + 1);
  auto made = std::make_shared<Member>(std::move(owner), place);
  if (const Status status = made->enter(free, call); status != kSuccess) return status;
  members->push_back(made);
  member = std::move(made);
  return kSuccess;
}

void lock_members() noexcept {
  members_mutex.lock();
}

void unlock_members() noexcept {
  members_mutex.unlock();
}

void forget_members() noexcept {
  if (the_members.value == nullptr) return;
  for (const auto& each : *the_members.value) {
    const auto member = each.lock();
    if (member == nullptr) continue;
    member->layout_.store(nullptr, std::memory_order_relaxed);
    member->anchor_.forget();
  }
}

/// Takes a place in the region. From then on only the mapping holds its lock: there is no descriptor that
/// could be closed or leak, and a forked child, which does not have the mapping, does not keep the place of a
/// dead parent.
Status Member::enter(uint64_t free, BrokerCall& call) {
  File file;
  File sign;
  Status status = place_.socket.empty() ? open_region(place_, true, file) : call.receive(place_, file, sign);
  if (status == kSuccess && sign) status = anchor_.take(place_, file, sign);
  if (status != kSuccess) return status;
  Layout* layout = nullptr;
  if (status = map_region(file, layout); status != kSuccess) return status;
  status = lock_free_slot(file, *layout, free);
  if (status == kSuccess) {
    layout_.store(layout, std::memory_order_relaxed);
    status = start_listener();
  }
  if (status != kSuccess) {
    layout_.store(nullptr, std::memory_order_relaxed);
    unmap_region(layout);
  }
  return status;
}

Status Member::open_again(File& file) const {
  return place_.socket.empty() ? open_region(place_, false, file) : anchor_.open(place_, file);
}

Status Member::lock_free_slot(const File& file, Layout& layout, uint64_t free) {
  (void)refund_the_dead(layout, file, free);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    if (!lock_slot(file, slot)) continue;
    Slot& place = layout.slots[slot];
    word::resolve(layout.header.used, slot, place.account);
    if (word::amount_of(place.account.state.load()) == 0) {
      slot_ = slot;
      introduce(place);
      set_limit_of_empty(layout);
      return kSuccess;
    }
    unlock_slot(file, slot);  // the device must still confirm that its memory is free
  }
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "all %u places of %s are taken", kSlots, place_.path().c_str());
}

/// A limit that a program asks for holds where it has the group to itself: not only for the first that ever
/// came.
void Member::set_limit_of_empty(Layout& layout) const noexcept {
  if (place_.limit == 0 || !place_.socket.empty()) return;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = layout.slots[slot];
    if (slot != slot_ && (each.pid.load() != 0 || word::amount_of(each.account.state.load()) != 0)) return;
  }
  layout.header.limit.store(std::min(place_.limit / kUnitBytes, kMostUnits));
}

void Member::introduce(Slot& slot) noexcept {
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
  std::snprintf(name, sizeof name, "%s", os::program_name());
  for (size_t i = 0; i < slot.name.size(); ++i) {
    uint64_t part = 0;
    std::memcpy(&part, name + i * sizeof part, sizeof part);
    slot.name[i].store(part, std::memory_order_relaxed);
  }
  slot.uid.store(os::user_id(), std::memory_order_relaxed);
  slot.pid.store(os::process_id(), std::memory_order_release);
}

Member::~Member() {
  Layout* const layout = this->layout();
  if (layout == nullptr) return;
  stop_listener();
  {
    const SpinGuard lock(lock_);
    (void)recharge(0, 0, false);
  }
  own().pid.store(0, std::memory_order_release);
  layout_.store(nullptr, std::memory_order_relaxed);
  unmap_region(layout);
}

/// Whether no other member waits, with an earlier turn than this one, for what is left beyond `units`.
bool Member::is_passing(uint64_t units) const noexcept {
  const Layout& region = *layout();
  const Header& header = region.header;
  if (std::all_of(header.waiting.begin(), header.waiting.end(),
                  [](const Number& each) { return each.load(std::memory_order_relaxed) == 0; })) {
    return true;
  }
  const uint64_t now = now_ns();
  const Slot& self = own();
  const int32_t priority = self.priority.load(std::memory_order_relaxed);
  const uint64_t ticket = self.ticket.load(std::memory_order_relaxed);
  uint64_t before = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = region.slots[slot];
    if (slot == slot_ || (header.waiting[slot / 64].load(std::memory_order_relaxed) >> slot % 64 & 1) == 0) {
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

/// Charges the member with the larger of both; false, and nothing changed, if there is no room. The caller
/// holds the lock.
bool Member::recharge(uint64_t reserved, uint64_t guaranteed, bool waits_in_turn) noexcept {
  Layout& region = *layout();
  const uint64_t charge = units_of(std::max(reserved, guaranteed));
  const auto delta = static_cast<int64_t>(charge) - static_cast<int64_t>(charged_);
  if (delta > 0 && waits_in_turn && !is_passing(static_cast<uint64_t>(delta))) return false;
  const auto account = [&](uint32_t slot) -> Account& { return account_of(region, slot); };
  const uint64_t limit = std::min(region.header.limit.load(std::memory_order_relaxed), kMostUnits);
  Slot& self = own();
  // Whoever sees that there is no room sees who can give some: this member seems to have too much for a
  // moment, never too little.
  self.reserved.store(std::max(reserved, reserved_), std::memory_order_seq_cst);
  if (delta != 0 && !word::change(region.header.used, account, slot_, delta, limit)) {
    self.reserved.store(reserved_, std::memory_order_release);
    return false;
  }
  charged_ = charge;
  reserved_ = reserved;
  guaranteed_ = guaranteed;
  self.reserved.store(reserved, std::memory_order_release);
  self.guaranteed.store(guaranteed, std::memory_order_release);
  if (delta >= 0) return true;
  const auto waits = [](const Number& each) { return each.load(std::memory_order_seq_cst) != 0; };
  const auto& waiting = region.header.waiting;
  if (std::any_of(waiting.begin(), waiting.end(), waits)) ring(region.header.freed);
  return true;
}

bool Member::charge(uint64_t bytes) noexcept {
  if (!is_member()) return true;
  const SpinGuard lock(lock_);
  if (bytes > kMostUnits * kUnitBytes - reserved_) return false;
  const uint64_t limit = own().limit.load(std::memory_order_relaxed);
  if (limit != 0 && reserved_ + bytes > std::max(limit, guaranteed_)) return false;
  if (!recharge(reserved_ + bytes, guaranteed_, true)) return false;
  // A few instructions, also where each is stepped through: the precise clock would begin again and again.
  own().active_at.store(os::coarse_ns(), std::memory_order_relaxed);
  ++charges_;
  return true;
}

void Member::refund(uint64_t bytes) noexcept {
  if (!is_member()) return;
  const SpinGuard lock(lock_);
  (void)recharge(reserved_ - std::min(bytes, reserved_), guaranteed_, false);
}

uint64_t Member::room() const noexcept {
  if (!is_member()) return ~uint64_t{0};
  const Header& header = layout()->header;
  const uint64_t limit = header.limit.load(std::memory_order_relaxed);
  const uint64_t used = word::used_of(header.used.load(std::memory_order_acquire));
  const Slot& self = own();
  const uint64_t reserved = self.reserved.load(std::memory_order_relaxed);
  const uint64_t guaranteed = self.guaranteed.load(std::memory_order_relaxed);
  const uint64_t sure = guaranteed > reserved ? guaranteed - reserved : 0;
  const uint64_t room = sure + (limit > used ? (limit - used) * kUnitBytes : 0);
  const uint64_t own_limit = self.limit.load(std::memory_order_relaxed);
  if (own_limit == 0) return room;
  return std::min(room, own_limit > reserved ? own_limit - reserved : sure);
}

uint64_t Member::limit() const noexcept {
  if (!is_member()) return ~uint64_t{0};
  const uint64_t limit = std::min(layout()->header.limit.load(std::memory_order_relaxed), kMostUnits);
  const uint64_t own_limit = own().limit.load(std::memory_order_relaxed);
  return own_limit == 0 ? limit * kUnitBytes : std::min(own_limit, limit * kUnitBytes);
}

uint64_t Member::used_by_all() const noexcept {
  if (!is_member()) return 0;
  return word::used_of(layout()->header.used.load(std::memory_order_relaxed)) * kUnitBytes;
}

Status Member::change_guarantee(int64_t bytes) {
  if (!is_member() || bytes == 0) return kSuccess;
  uint64_t guaranteed = 0;
  {
    const SpinGuard lock(lock_);
    guaranteed = bytes < 0 ? guaranteed_ - std::min(guaranteed_, static_cast<uint64_t>(-bytes))
                           : guaranteed_ + static_cast<uint64_t>(bytes);
    if (recharge(reserved_, guaranteed, false)) return kSuccess;
  }
  return fail(GPUPOOL_ERROR_OVER_LIMIT,
              "the group %s has not enough left to guarantee %" PRIu64 " bytes: its members have %" PRIu64
              " of %" PRIu64,
              place_.group.c_str(), guaranteed, word::used_of(layout()->header.used.load()) * kUnitBytes,
              layout()->header.limit.load() * kUnitBytes);
}

void Member::count_taken(uint64_t bytes) noexcept {
  const uint64_t now = taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  own().taken.store(now, std::memory_order_relaxed);
}

void Member::note_live() noexcept {
  own().live.store(owner_->live_bytes(), std::memory_order_relaxed);
}

void Member::raise_priority(int32_t priority) noexcept {
  if (!is_member()) return;
  const SpinGuard lock(lock_);
  if (own().priority.load() < priority || reserved_ == 0) own().priority.store(priority);
}

void Member::count_sleepers(int32_t more) noexcept {
  if (is_member()) own().sleepers.fetch_add(static_cast<uint32_t>(more), std::memory_order_relaxed);
}

// ---- the dead

namespace {

/// How long the device may take to show a dead member's memory as free. After that, somebody else has it by
/// now, or had it before.
constexpr uint64_t kLimboNs = 10'000'000'000;
/// How long the device has to show all of it as free. After that, it is enough that this much is free: a
/// program outside the group may have taken part of the rest.
constexpr uint64_t kStrictNs = 200'000'000;

/// What the device should have free once `slot` holds nothing, if only members used it, plus what was foreign
/// at the last quiet moment.
uint64_t expected_free(const Layout& layout, uint32_t without) noexcept {
  uint64_t held = layout.header.foreign.load(std::memory_order_relaxed);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = layout.slots[slot];
    const bool counts = slot != without && each.pid.load(std::memory_order_relaxed) != 0;
    if (counts) held += each.reserved.load(std::memory_order_relaxed);
  }
  const uint64_t total = layout.header.device_bytes;
  return held < total ? total - held : 0;
}

bool is_confirmed(const Layout& layout, uint32_t slot, uint64_t bytes, uint64_t dead_for,
                  uint64_t free) noexcept {
  if (dead_for >= kLimboNs || bytes == 0) return true;
  if (free == ~uint64_t{0}) return false;
  return free >= expected_free(layout, slot) || (dead_for >= kStrictNs && free >= bytes);
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
  const uint64_t bytes = std::min(dead.reserved.load(), layout.header.device_bytes);
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
    const uint64_t members = layout.header.device_bytes - expected_free(layout, kSlots);
    const uint64_t foreign = layout.header.foreign.load();
    const uint64_t held = layout.header.device_bytes - std::min(free, layout.header.device_bytes);
    const uint64_t of_members = members - std::min(members, foreign);
    layout.header.foreign.store(held - std::min(held, of_members));
  }
  return limbo;
}

}  // namespace gpupool::internal::share
