// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/share.hpp"

#include <algorithm>

namespace gpupool::audit {

using share::kMostUnits;
using share::kUnitBytes;
using share::Layout;
using share::Slot;
using share::units_of;

constinit bool shares = false;

namespace {

uint64_t limit_of(const Layout& region) noexcept {
  return std::min(region.header.limit.load(std::memory_order_relaxed), kMostUnits);
}

uint64_t used_of(const Layout& region) noexcept {
  return share::word::used_of(region.header.used.load(std::memory_order_acquire));
}

bool anybody_waits(const Layout& region) noexcept {
  return std::any_of(region.header.waiting.begin(), region.header.waiting.end(),
                     [](const share::Number& each) { return each.load(std::memory_order_seq_cst) != 0; });
}

}  // namespace

void Share::begin(Layout& region, uint32_t slot, uint64_t bytes) noexcept {
  slot_ = slot;
  region_.store(&region, std::memory_order_release);
  force_to(bytes);
}

/// For those who look for members that could give something: nothing is beyond its guarantee, at no moment.
void Share::show(Slot& own, uint64_t bytes) noexcept {
  const bool grows = bytes > own.reserved.load(std::memory_order_relaxed);
  (grows ? own.guaranteed : own.reserved).store(bytes, std::memory_order_seq_cst);
  (grows ? own.reserved : own.guaranteed).store(bytes, std::memory_order_seq_cst);
  own.live.store(bytes, std::memory_order_relaxed);
}

bool Share::change(Layout& region, uint64_t bytes, uint64_t limit) noexcept {
  const auto account = [&](uint32_t slot) -> share::Account& { return share::account_of(region, slot); };
  const auto delta = static_cast<int64_t>(units_of(bytes)) - static_cast<int64_t>(units_of(bytes_));
  // Whoever finds it dead asks the device for what is shown: it may be too much for a moment, never too
  // little.
  show(own(region), std::max(bytes, bytes_));
  if (delta != 0 && !share::word::change(region.header.used, account, slot_, delta, limit)) {
    show(own(region), bytes_);
    return false;
  }
  bytes_ = bytes;
  show(own(region), bytes);
  if (delta < 0 && anybody_waits(region)) share::ring(region.header.freed);
  return true;
}

bool Share::change_to(uint64_t bytes) noexcept {
  Layout* const region = this->region();
  if (region == nullptr) return true;
  if (bytes > bytes_) {
    const uint64_t own_limit = own(*region).limit.load(std::memory_order_relaxed);
    if (bytes > kMostUnits * kUnitBytes || (own_limit != 0 && bytes > own_limit)) return false;
    if (!share::is_passing(*region, slot_, units_of(bytes) - units_of(bytes_))) return false;
  }
  return change(*region, bytes, limit_of(*region));
}

void Share::force_to(uint64_t bytes) noexcept {
  if (Layout* const region = this->region(); region != nullptr)
    (void)change(*region, std::min(bytes, kMostUnits * kUnitBytes), kMostUnits);
}

void Share::begin_wait(uint64_t bytes, uint64_t until) noexcept {
  Layout& region = *this->region();
  wanted_ += bytes;
  own(region).want.store(wanted_);
  own(region).deadline.store(until);
  if (waits_++ != 0) return;
  own(region).ticket.store(region.header.tickets.fetch_add(1) + 1);
  region.header.waiting[slot_ / 64].fetch_or(uint64_t{1} << slot_ % 64);
}

void Share::end_wait(uint64_t bytes) noexcept {
  Layout& region = *this->region();
  wanted_ -= bytes;
  own(region).want.store(wanted_);
  if (--waits_ != 0) return;
  region.header.waiting[slot_ / 64].fetch_and(~(uint64_t{1} << slot_ % 64));
  own(region).ticket.store(0);
  own(region).deadline.store(0);
  share::ring(region.header.freed);  // what was kept for it is the next one's
}

uint64_t Share::limit() const noexcept {
  Layout* const region = this->region();
  if (region == nullptr) return UINT64_MAX;
  const uint64_t own_limit = own(*region).limit.load(std::memory_order_relaxed);
  return std::min(limit_of(*region) * kUnitBytes, own_limit != 0 ? own_limit : UINT64_MAX);
}

uint64_t Share::room(uint64_t bytes) const noexcept {
  Layout* const region = this->region();
  if (region == nullptr) return UINT64_MAX;
  const uint64_t limit = limit_of(*region);
  const uint64_t used = used_of(*region);
  const uint64_t most = this->limit();
  return std::min(limit > used ? (limit - used) * kUnitBytes : 0, most > bytes ? most - bytes : 0);
}

uint64_t Share::excess() const noexcept {
  Layout* const region = this->region();
  if (region == nullptr) return 0;
  const uint64_t limit = limit_of(*region);
  const uint64_t used = used_of(*region);
  return used > limit ? (used - limit) * kUnitBytes : 0;
}

}  // namespace gpupool::audit
