// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/surplus.hpp"

#include <algorithm>
#include <utility>

namespace gpupool::internal {

void Surplus::note_use(StreamHeap& heap, uint64_t bytes) noexcept {
  begin_window();
  const uint64_t free = std::min(ledger_.used(), space_.free_chunks.bytes());
  at_once_now_ = std::max(at_once_now_, ledger_.used() - free + bytes);
  const uint64_t before = heap.most_used();
  heap.note_use(bytes);
  most_used_ += heap.most_used() - before;
}

/// Begins a new window of time if the last one is over.
void Surplus::begin_window() noexcept {
  const uint64_t now = device_.now_ns();
  if (now - window_ < policy::kApartNs) return;
  window_ = now;
  // Where nothing was noted, nothing has changed.
  if (at_once_now_ != 0) at_once_before_ = std::exchange(at_once_now_, 0);
  most_used_ = 0;
  for (const auto& state : streams_.all()) {
    for (StreamHeap& each : state->heaps) {
      each.next_window();
      most_used_ += each.most_used();
    }
  }
  if (taken_back_ != kNothingWent) {
    pause_ = ledger_.used() >= taken_back_ ? std::min(2 * pause_ + 1, policy::kLongestPause) : 0;
    taken_back_ = kNothingWent;
    paused_ = pause_;
  }
  is_due_ = paused_ == 0;
  if (paused_ != 0) --paused_;
}

bool Surplus::keeps_apart(uint64_t bytes, uint64_t now) const noexcept {
  const bool after_moves = governor_.keeps_apart(now);
  const bool in_place = governor_.keeps_apart_in_place(now);
  if (options_.slack > 0) return after_moves || in_place;
  const uint64_t most = at_once();
  const uint64_t would_hold = ledger_.used() + bytes;
  return (after_moves && would_hold <= most + std::max(most / policy::kApartParts,
                                                       device_.info().total / policy::kLeastApartParts)) ||
         (in_place && would_hold <= std::min(most + policy::kLeastSurplus, policy::kSmallPool));
}

/// Of pools that share a limit none keeps what others lack; and no event covers frees that caches keep, which
/// an idle pool needs to give back.
bool Surplus::keeps_caches_apart(SizeGroup group, uint64_t bytes, const Caches& caches) noexcept {
  CacheRest& rest = rest_of(group);
  if (!rest.has_begun()) return false;
  const uint64_t now = device_.now_ns();
  if (!rest.keeps_apart(now) || options_.slack < 0 || options_.idle_ns != 0 || ledger_.budget().is_common())
    return false;
  const uint64_t would_hold = ledger_.used() + bytes;
  const uint64_t small_pool =
      group == SizeGroup::small ? device_.info().total / policy::kSmallBlocksParts : policy::kSmallPool;
  const bool is_little =
      would_hold <= small_pool || would_hold <= caches.live().allocated + policy::kLeastSurplus;
  if (is_little && leaves_room(bytes)) return true;
  rest.fail(now);
  return false;
}

void Surplus::drained(SizeGroup group, size_t blocks) noexcept {
  if (blocks != 0) rest_of(group).drained(blocks, device_.now_ns());
}

void Surplus::ran_short() noexcept {
  for (CacheRest& each : rests_) each.fail(device_.now_ns());
}

bool Surplus::prefers_creating(uint64_t bytes, uint64_t now) noexcept {
  if (space_.free_chunks.bytes() == 0) return false;
  if (options_.slack > 0) return true;
  return ledger_.used() + bytes <=
             most_used_ + std::max(most_used_ / policy::kSurplusParts, policy::kLeastSurplus) &&
         governor_.affords(bytes, now);
}

bool Surplus::is_within_slack(uint64_t bytes) const noexcept {
  const auto live = static_cast<double>(counters_.peak_all().live.allocated);
  return options_.slack > 0 && static_cast<double>(ledger_.used() + bytes) <= (1 + options_.slack) * live;
}

bool Surplus::spares_draining(uint64_t bytes) const noexcept {
  const uint64_t live = counters_.peak_all().live.allocated;
  return options_.slack >= 0 && ledger_.used() + bytes <= live + live / policy::kEntitledParts &&
         leaves_room(bytes);
}

uint64_t Surplus::room_parts() const noexcept {
  return ledger_.budget().is_common() ? policy::kGroupRoomParts : policy::kRoomParts;
}

/// Others may be charged to the same limit.
bool Surplus::leaves_room(uint64_t bytes) const noexcept {
  const Budget& budget = ledger_.budget();
  const uint64_t limit = std::min(budget.limit(), device_.info().total);
  const uint64_t unused = limit - std::min(limit, at_once());
  const uint64_t left = std::min(limit / room_parts(), unused / policy::kUnusedParts);
  return ledger_.used() + bytes <= limit - left && budget.room() >= bytes + left;
}

bool Surplus::has_room(uint64_t bytes) const {
  if (options_.slack < 0) return false;
  if (options_.slack > 0) return is_within_slack(bytes);
  uint64_t free = 0;
  return leaves_room(bytes) && device_.raw().free_memory(free) == kSuccess &&
         free >= bytes + device_.info().total / room_parts();
}

void Surplus::moved(uint64_t between, uint64_t within, uint64_t nanoseconds) noexcept {
  const uint64_t total = between + within;
  const uint64_t now = device_.now_ns();
  const double part = total == 0 ? 0 : static_cast<double>(between) / static_cast<double>(total);
  const auto between_ns = static_cast<uint64_t>(static_cast<double>(nanoseconds) * part);
  if (between != 0) governor_.moved_between(between_ns, ledger_.used(), now);
  if (nanoseconds != between_ns)
    governor_.moved_within(within, nanoseconds - between_ns, ledger_.used(), now);
}

bool Surplus::is_due() noexcept {
  return std::exchange(is_due_, false);
}

void Surplus::gave_back(uint64_t before) noexcept {
  const uint64_t after = ledger_.used();
  if (after >= before) return;
  taken_back_ = after + (before - after) / 2;
}

uint64_t Surplus::entitled() const noexcept {
  return std::max(most_used_ + most_used_ / policy::kEntitledParts, counters_.peak_all().live.allocated);
}

uint64_t Surplus::kept() const noexcept {
  const uint64_t needed = at_once() + std::max(at_once() / policy::kKeptParts, policy::kLeastSurplus);
  return std::min(entitled(), std::max(needed, counters_.peak_all().live.allocated));
}

}  // namespace gpupool::internal
