// SPDX-License-Identifier: Apache-2.0
#include "share/turn.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <tuple>

#include "base/interrupts.hpp"
#include "share/policy.hpp"

namespace gpupool::internal::share {
namespace {

struct Candidate {
  uint32_t slot = 0;
  bool is_late = false;  // did not answer the last time
  bool is_idle = false;
  int32_t priority = 0;
  uint64_t spare = 0;   // reserved beyond its guarantee; may be live
  uint64_t cached = 0;  // of it, what was not live when it last said so
};

/// The order of giving: first members that answer, then those of lower priority, then idle ones, then those
/// that have most cached. Who has little is asked only for the rest: being asked takes time from its work.
bool gives_before(const Candidate& a, const Candidate& b) noexcept {
  if (a.is_late != b.is_late) return b.is_late;
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.is_idle != b.is_idle) return a.is_idle;
  return std::tie(a.cached, a.spare) > std::tie(b.cached, b.spare);
}

void raise(Number& number, uint64_t to) noexcept {
  uint64_t seen = number.load();
  while (seen < to && !number.compare_exchange_weak(seen, to)) {
  }
}

/// What all members have ever given back because others asked.
uint64_t given_by_all(const Layout& region) noexcept {
  uint64_t given = 0;
  for (const Slot& each : region.slots) given += each.given.load(std::memory_order_relaxed);
  return given;
}

}  // namespace

/// Recovers what dead members left, but not too often: a probe opens the region again, for its own locks.
/// True: some of their memory is still to come.
bool Turns::sweep() noexcept {
  const uint64_t now = now_ns();
  if (now - swept_at_.load(std::memory_order_relaxed) < policy::kSweepNs) return limbo_.load();
  swept_at_.store(now, std::memory_order_relaxed);
  uint64_t free = 0;
  if (!owner_.free_bytes(free)) free = ~uint64_t{0};
  const std::lock_guard lock(members_mutex);
  try {
    File file;
    // If another file has the name by now, nobody holds this member's place there, and its locks say nothing
    // about this region.
    const bool is_this = membership_.open_again(file) == kSuccess && is_locked(file, membership_.slot());
    limbo_.store(is_this && refund_the_dead(*membership_.layout(), file, free) != 0);
  } catch (const std::bad_alloc&) {
    // The next sweep will look.
  }
  return limbo_.load();
}

/// How much is missing until the group lets this member take `bytes` and the device has them. The device is
/// asked last, since its answer takes longer than all else here.
uint64_t Turns::missing(uint64_t bytes) noexcept {
  const Slot& self = membership_.own();
  const uint64_t reserved = self.reserved.load();
  const uint64_t guaranteed = self.guaranteed.load();
  const uint64_t sure = guaranteed > reserved ? guaranteed - reserved : 0;
  uint64_t lacks = bytes - std::min(bytes, membership_.room());
  // Free memory may be for other members, whose turn it is.
  if (lacks == 0 && bytes > sure &&
      !is_passing(*membership_.layout(), membership_.slot(), (bytes - sure) / kUnitBytes)) {
    lacks = bytes;
  }
  uint64_t free = 0;
  if (lacks == 0 && owner_.free_bytes(free)) lacks = bytes - std::min(bytes, free);
  return lacks;
}

/// Asks as many neighbours as necessary, among those not yet asked in this round, for what they have cached,
/// or also for the memory of pools that may be put to sleep.
Turns::Round Turns::ask(uint64_t bytes, uint64_t until, For what, Slots& asked) noexcept {
  Layout& region = *membership_.layout();
  const Slot& own = membership_.own();
  std::array<Candidate, kSlots> candidates;
  uint32_t count = 0;
  const uint64_t now = now_ns();
  Round round;
  uint64_t left = bytes;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = region.slots[slot];
    const uint64_t reserved = each.reserved.load();
    const uint64_t guaranteed = each.guaranteed.load();
    if (&each == &own || each.pid.load() == 0 || reserved <= guaranteed) continue;
    if (what == For::sleep && each.sleepers.load() == 0) continue;
    ++round.candidates;
    const bool is_late = each.answered.load() != each.bell.load();
    if (asked.test(slot)) {
      if (!is_late) continue;
      left -= std::min(left, reserved - guaranteed);  // it is about to give memory
      round.is_over = false;
    } else if (is_late && each.asked.load() == 0) {
      round.is_over = false;  // it is giving what it was asked for before
    } else {
      const bool is_idle = each.active_at.load() + policy::kIdleNs <= now;
      const uint64_t spare = reserved - guaranteed;
      const uint64_t cached = std::min(spare, reserved - std::min(reserved, each.live.load()));
      candidates[count++] = {slot, is_late, is_idle, each.priority.load(), spare, cached};
    }
  }
  std::sort(candidates.begin(), candidates.begin() + count, gives_before);
  for (uint32_t i = 0; i < count && left != 0; ++i) {
    // All of it may be live: then the next neighbours are asked once it has answered.
    const uint64_t part = std::min(left, candidates[i].spare);
    Slot& each = region.slots[candidates[i].slot];
    if (what == For::sleep) each.asked_to_sleep.store(1);  // the neighbour looks at it after `asked`
    raise(each.asked, part);
    raise(each.asked_until, until);
    each.asked_priority.store(own.priority.load());
    each.asked_by_rich.store(membership_.beyond_share() > 0 ? 1 : 0);
    asked.set(candidates[i].slot);
    ring(each.bell);
    left -= part;
    round.is_over = false;
  }
  return round;
}

void Turns::begin(uint64_t bytes, uint64_t until) noexcept {
  if (!membership_.is_member()) return;
  Header& header = membership_.header();
  Slot& own = membership_.own();
  const SpinGuard lock(lock_);
  wanted_ += bytes;
  own.want.store(wanted_);
  raise(own.deadline, until);
  if (waiting_++ != 0) return;
  own.ticket.store(header.tickets.fetch_add(1) + 1);
  header.waiting[membership_.slot() / 64].fetch_or(uint64_t{1} << membership_.slot() % 64);
}

void Turns::end(uint64_t bytes) noexcept {
  if (!membership_.is_member()) return;
  Header& header = membership_.header();
  Slot& own = membership_.own();
  const SpinGuard lock(lock_);
  wanted_ -= bytes;
  own.want.store(wanted_);
  if (--waiting_ != 0) return;
  header.waiting[membership_.slot() / 64].fetch_and(~(uint64_t{1} << membership_.slot() % 64));
  own.ticket.store(0);
  own.deadline.store(0);
  ring(header.freed);  // memory kept for this member is now available to the next
}

/// Whether it could be enough if all gave back everything beyond their guarantees.
bool Turns::may_ever_have(uint64_t bytes) const noexcept {
  const Layout& region = *membership_.layout();
  const Slot& own = membership_.own();
  uint64_t others = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = region.slots[slot];
    if (&each != &own && each.pid.load() != 0) others += each.guaranteed.load();
  }
  const uint64_t limit = region.header.limit.load() * kUnitBytes;
  const uint64_t own_limit = own.limit.load() == 0 ? limit : own.limit.load();
  // What pools hold that may be put to sleep is not known here.
  const uint64_t held = own.sleepers.load() == 0 ? own.reserved.load() : 0;
  const uint64_t mine = held + bytes;
  return mine <= own_limit && others <= limit && mine <= limit - others;
}

/// The process's own pools sleep before those of neighbours. True if any has.
bool Turns::put_own_to_sleep(uint64_t bytes, uint64_t asker) noexcept {
  return membership_.own().sleepers.load() != 0 && owner_.put_to_sleep(bytes, asker) != 0;
}

/// How much to ask for beyond what is missing.
uint64_t Turns::ahead(uint64_t now) noexcept {
  const SpinGuard lock(lock_);
  if (now - asked_at_ > policy::kGrowthGapNs) grown_ = 0;
  return std::min(grown_ / 2, policy::kMostAhead);
}

void Turns::note_growth(uint64_t bytes) noexcept {
  const SpinGuard lock(lock_);
  asked_at_ = now_ns();
  grown_ += bytes;
}

void Turns::count_taken(uint64_t bytes) noexcept {
  const uint64_t now = taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  membership_.own().taken.store(now, std::memory_order_relaxed);
}

bool Turns::others_wait() const noexcept {
  const Header& header = membership_.header();
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const bool waits = (header.waiting[slot / 64].load() >> slot % 64 & 1) != 0;
    if (waits && slot != membership_.slot()) return true;
  }
  return false;
}

Turn::Turn(Turns& turns, uint64_t bytes, uint64_t nanoseconds, uint64_t asker) noexcept
    : turns_(turns), bytes_(bytes), until_(now_ns() + std::min(nanoseconds, kLongestWait)), asker_(asker) {
  turns_.begin(bytes_, until_);
}

bool Turn::wait() noexcept {
  Membership& membership = turns_.membership_;
  if (!membership.is_member()) return false;
  // What others have for sure may be that of dead ones.
  if (!turns_.may_ever_have(bytes_) && !turns_.sweep() && !turns_.may_ever_have(bytes_)) return false;
  Layout& region = *membership.layout();
  Turns::Slots asked;
  Turns::Slots asked_to_sleep;
  uint64_t gap = policy::kFirstGapNs;
  uint64_t next_round = 0;
  uint64_t given_before = 0;  // this round
  bool has_asked = false;
  const uint64_t start = now_ns();
  const uint64_t ahead = turns_.ahead(start);
  interrupts::Patience patience(GPUPOOL_WAIT_MEMORY);
  membership.note_live(turns_.owner_.live_bytes());
  for (;;) {
    const uint32_t seen = region.header.freed.load();
    const uint64_t missing = turns_.missing(bytes_);
    if (missing == 0) {
      if (has_asked) turns_.count_taken(bytes_);
      turns_.note_growth(bytes_);
      return true;
    }
    const uint64_t now = now_ns();
    if (now >= until_ || patience.is_over()) return false;
    if (now >= next_round) {
      asked.reset();
      asked_to_sleep.reset();
      given_before = given_by_all(region);
      next_round = now + gap;
      if (membership.beyond_share() > -policy::kFair) gap *= 2;
    }
    Turns::Round round = turns_.ask(missing + ahead, until_, Turns::For::cached, asked);
    if (round.is_over && turns_.put_own_to_sleep(missing, asker_)) continue;
    if (round.is_over) round.is_over = turns_.ask(missing, until_, Turns::For::sleep, asked_to_sleep).is_over;
    // A member that holds more than the others does not go on waiting for what they may free one day: they
    // wait for what it frees itself once it is refused.
    bool is_refused = round.is_over && turns_.others_wait() && membership.beyond_share() > 0;
    // Not while neighbours give: what they gave may have been for another one that asked, and they may have
    // more.
    if (is_refused && given_by_all(region) != given_before) {
      is_refused = false;
      next_round = now;
    }
    const bool has_no_hope = round.candidates == 0 || is_refused;
    // The living answer sooner than the dead are found.
    const bool more_to_come = (has_no_hope || now - start >= policy::kSweepNs) && turns_.sweep();
    if (has_no_hope && !more_to_come) {
      // Since `missing` was taken, a neighbour may have given all that it had: then it looks like one that
      // has nothing to give.
      if (region.header.freed.load() == seen && turns_.missing(bytes_) >= missing) return false;
      continue;
    }
    has_asked = true;
    wait_for(region.header.freed, seen, std::min({until_, next_round, now + policy::kSweepNs}) - now);
  }
}

}  // namespace gpupool::internal::share
