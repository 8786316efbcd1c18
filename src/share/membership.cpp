// SPDX-License-Identifier: Apache-2.0
#include "share/membership.hpp"

#include <algorithm>
#include <cinttypes>

#include "os/clock.hpp"
#include "os/process.hpp"

namespace gpupool::internal::share {

constinit os::Mutex members_mutex;

/// Takes a place in the region. From then on only the mapping holds its lock: there is no descriptor that
/// could be closed or leak, and a forked child, which does not have the mapping, does not keep the place of a
/// dead parent.
Status Membership::enter(uint64_t free, BrokerCall& call) {
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
  } else {
    unmap_region(layout);
  }
  return status;
}

void Membership::leave() noexcept {
  Layout* const layout = this->layout();
  if (layout == nullptr) return;
  {
    const SpinGuard lock(lock_);
    (void)recharge(0, 0, false);
  }
  own().pid.store(0, std::memory_order_release);
  layout_.store(nullptr, std::memory_order_relaxed);
  unmap_region(layout);
}

void Membership::forget() noexcept {
  layout_.store(nullptr, std::memory_order_relaxed);
  anchor_.forget();
}

Status Membership::open_again(File& file) const {
  return place_.socket.empty() ? open_region(place_, false, file) : anchor_.open(place_, file);
}

Status Membership::lock_free_slot(const File& file, Layout& layout, uint64_t free) {
  (void)refund_the_dead(layout, file, free);
  const Resident self{os::program_name(), os::user_id(), os::process_id()};
  if (!take_slot(layout, file, self, slot_))
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "all %u places of %s are taken", kSlots, place_.path().c_str());
  if (place_.socket.empty()) set_limit_of_empty(layout, slot_, place_.limit);
  return kSuccess;
}

/// Charges the member with the larger of both; false, and nothing changed, if there is no room. The caller
/// holds the lock.
bool Membership::recharge(uint64_t reserved, uint64_t guaranteed, bool waits_in_turn) noexcept {
  Layout& region = *layout();
  const uint64_t charge = units_of(std::max(reserved, guaranteed));
  const auto delta = static_cast<int64_t>(charge) - static_cast<int64_t>(charged_);
  if (delta > 0 && waits_in_turn && !is_passing(region, slot_, static_cast<uint64_t>(delta))) return false;
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

bool Membership::charge(uint64_t bytes) noexcept {
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

void Membership::refund(uint64_t bytes) noexcept {
  if (!is_member()) return;
  const SpinGuard lock(lock_);
  (void)recharge(reserved_ - std::min(bytes, reserved_), guaranteed_, false);
}

uint64_t Membership::room() const noexcept {
  if (!is_member()) return ~uint64_t{0};
  const Header& header = this->header();
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

uint64_t Membership::limit() const noexcept {
  if (!is_member()) return ~uint64_t{0};
  const uint64_t limit = std::min(header().limit.load(std::memory_order_relaxed), kMostUnits);
  const uint64_t own_limit = own().limit.load(std::memory_order_relaxed);
  return own_limit == 0 ? limit * kUnitBytes : std::min(own_limit, limit * kUnitBytes);
}

uint64_t Membership::used_by_all() const noexcept {
  if (!is_member()) return 0;
  return word::used_of(header().used.load(std::memory_order_relaxed)) * kUnitBytes;
}

Status Membership::change_guarantee(int64_t bytes) {
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
              place_.group.c_str(), guaranteed, word::used_of(header().used.load()) * kUnitBytes,
              header().limit.load() * kUnitBytes);
}

bool Membership::set_guarantee(uint64_t bytes) noexcept {
  const SpinGuard lock(lock_);
  return recharge(reserved_, bytes, false);
}

uint64_t Membership::charges() noexcept {
  const SpinGuard lock(lock_);
  return charges_;
}

uint64_t Membership::spare() noexcept {
  const SpinGuard lock(lock_);
  return reserved_ - std::min(reserved_, guaranteed_);
}

void Membership::raise_priority(int32_t priority) noexcept {
  if (!is_member()) return;
  const SpinGuard lock(lock_);
  if (own().priority.load() < priority || reserved_ == 0) own().priority.store(priority);
}

void Membership::count_sleepers(int32_t more) noexcept {
  if (is_member()) own().sleepers.fetch_add(static_cast<uint32_t>(more), std::memory_order_relaxed);
}

}  // namespace gpupool::internal::share
