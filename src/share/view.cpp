// SPDX-License-Identifier: Apache-2.0
#include "share/view.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <mutex>

#include "share/membership.hpp"

namespace gpupool::internal::share {

View::~View() {
  if (layout_ != nullptr) unmap_region(layout_);
}

Status View::open(const Place& place) {
  if (const Status status = open_existing(place, file_); status != kSuccess) return status;
  return map_region(file_, layout_);
}

Standing View::standing() const noexcept {
  const Header& header = layout_->header;
  Standing now;
  now.limit = header.limit.load() * kUnitBytes;
  now.used = word::used_of(header.used.load()) * kUnitBytes;
  now.total = header.begin.device_bytes;
  now.foreign = header.foreign.load();
  now.created = header.begin.created;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = layout_->slots[slot];
    const int64_t amount = word::amount_of(each.account.state.load());
    if (amount > 0 && !is_locked(file_, slot)) now.limbo += static_cast<uint64_t>(amount) * kUnitBytes;
  }
  now.limbo = std::min(now.limbo, now.used);
  return now;
}

std::vector<Neighbour> View::members() const {
  std::vector<Neighbour> all;
  const Header& header = layout_->header;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Slot& each = layout_->slots[slot];
    const bool is_locked = share::is_locked(file_, slot);
    const int64_t amount = word::amount_of(each.account.state.load());
    if (each.pid.load() == 0 || (!is_locked && amount == 0)) continue;
    Neighbour found;
    found.slot = slot;
    found.is_dead = !is_locked;
    found.waits = (header.waiting[slot / 64].load() >> slot % 64 & 1) != 0 && is_locked;
    found.priority = each.priority.load();
    found.pid = each.pid.load();
    found.uid = each.uid.load();
    found.reserved = each.reserved.load();
    found.charged = static_cast<uint64_t>(std::max<int64_t>(amount, 0)) * kUnitBytes;
    found.live = each.live.load();
    found.guaranteed = each.guaranteed.load();
    found.limit = each.limit.load();
    found.want = found.waits ? each.want.load() : 0;
    found.given = each.given.load();
    found.taken = each.taken.load();
    for (size_t i = 0; i < each.name.size(); ++i) {
      const uint64_t part = each.name[i].load();
      std::memcpy(found.name + i * sizeof part, &part, sizeof part);
    }
    all.push_back(found);
  }
  return all;
}

Status View::set_limit(uint64_t bytes) {
  if (bytes == 0 || bytes / kUnitBytes > kMostUnits) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a group's limit is %" PRIu64 ", not 1 to %" PRIu64 " bytes",
                bytes, kMostUnits * kUnitBytes);
  }
  layout_->header.limit.store(bytes / kUnitBytes);
  ring(layout_->header.freed);
  return kSuccess;
}

Slot* View::member(uint32_t slot) const {
  if (slot < kSlots && layout_->slots[slot].pid.load() != 0 && is_locked(file_, slot)) {
    return &layout_->slots[slot];
  }
  (void)fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the group has no member %u", slot);
  return nullptr;
}

Status View::set_limit_of(uint32_t slot, uint64_t bytes) {
  Slot* const found = member(slot);
  if (found == nullptr) return GPUPOOL_ERROR_INVALID_ARGUMENT;
  found->limit.store(bytes);
  return kSuccess;
}

/// The member makes the change itself, so that nobody else changes its account, and so that it may refuse.
Status View::set_guarantee_of(uint32_t slot, uint64_t bytes) {
  Slot* const found = member(slot);
  if (found == nullptr) return GPUPOOL_ERROR_INVALID_ARGUMENT;
  if (bytes / kUnitBytes > layout_->header.limit.load()) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "a guarantee of %" PRIu64 " bytes is more than the group's limit",
                bytes);
  }
  constexpr uint64_t kPatience = 100'000'000;
  const uint64_t end = now_ns() + kPatience;
  found->wanted_guarantee.store(bytes + 1);
  uint32_t seen = layout_->header.freed.load();
  ring(found->bell);
  for (uint64_t now = now_ns(); found->wanted_guarantee.load() != 0 && now < end; now = now_ns()) {
    wait_for(layout_->header.freed, seen, std::min<uint64_t>(end - now, 1'000'000));
    seen = layout_->header.freed.load();
  }
  if (found->wanted_guarantee.load() != 0) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "member %u does not answer: it may be stopped", slot);
  }
  // It sets its new guarantee before it takes the request, and answers after that.
  for (uint64_t now = now_ns(); found->answered.load() != found->bell.load() && now < end; now = now_ns()) {
    wait_for(layout_->header.freed, seen, std::min<uint64_t>(end - now, 1'000'000));
    seen = layout_->header.freed.load();
  }
  if (found->guaranteed.load() == bytes) return kSuccess;
  return fail(GPUPOOL_ERROR_OVER_LIMIT, "the group has not enough left to guarantee %" PRIu64 " bytes",
              bytes);
}

Status View::set_priority_of(uint32_t slot, int32_t priority) {
  if (priority < kLeastPriority || priority > kMostPriority) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "priority is %d, not %d to %d", priority, kLeastPriority,
                kMostPriority);
  }
  Slot* const found = member(slot);
  if (found == nullptr) return GPUPOOL_ERROR_INVALID_ARGUMENT;
  found->priority.store(priority);
  return kSuccess;
}

/// What all members have, at the moment when the word was `seen`; false if it has changed since.
bool View::sum_up(uint64_t seen, uint64_t& sum) const noexcept {
  int64_t all = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const Account& account = layout_->slots[slot].account;
    const uint64_t state = account.state.load();
    const uint64_t intent = account.intent.load();
    const int64_t amount = word::amount_of(word::resolved(slot, account, state, intent, seen));
    all += std::clamp<int64_t>(amount, 0, static_cast<int64_t>(kMostUnits));
  }
  sum = static_cast<uint64_t>(std::min(all, static_cast<int64_t>(kMostUnits)));
  return layout_->header.used.load() == seen;
}

Status View::repair(uint64_t free, int64_t& off) {
  {
    const std::lock_guard lock(members_mutex);
    (void)refund_the_dead(*layout_, file_, free);
  }
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    uint64_t seen = layout_->header.used.load();
    uint64_t sum = 0;
    if (!sum_up(seen, sum)) continue;
    off = (static_cast<int64_t>(word::used_of(seen)) - static_cast<int64_t>(sum)) *
          static_cast<int64_t>(kUnitBytes);
    // The last writer and its number stay, so its change counts as made as before.
    const uint64_t right = word::make(sum, word::writer_of(seen), word::number_of(seen));
    if (off == 0 || layout_->header.used.compare_exchange_strong(seen, right)) return kSuccess;
  }
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the members are too busy to be counted: try again");
}

}  // namespace gpupool::internal::share
