// SPDX-License-Identifier: Apache-2.0
#include "share/listener.hpp"

#include <algorithm>
#include <utility>

#include "share/policy.hpp"

namespace gpupool::internal::share {

Status Listener::start(std::weak_ptr<const void> member) {
  member_ = std::move(member);
  if (!thread_.start("gpupool-share", listen, this)) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "no thread for the group %s", membership_.place().group.c_str());
  }
  listens_ = true;
  return kSuccess;
}

void Listener::stop() noexcept {
  if (!listens_) return;
  if (thread_.is_this()) {
    // This thread itself has released the last pool.
    thread_.detach();
    stops_->store(true);
    return;
  }
  stops_->store(true);
  ring(membership_.own().bell);
  thread_.join();
}

void* Listener::listen(void* listener) {
  auto& self = *static_cast<Listener*>(listener);
  Slot& own = self.membership_.own();
  const std::shared_ptr<std::atomic<bool>> stops = self.stops_;
  while (!stops->load()) {
    const uint32_t rung = own.bell.load();
    if (rung == own.answered.load()) {
      wait_for(own.bell, rung, ~uint64_t{0});
      continue;
    }
    // While it answers, others may release the member.
    const std::shared_ptr<const void> keep = self.member_.lock();
    if (keep == nullptr) break;  // the thread that ends it waits for this one
    self.serve(own, rung);
  }
  return nullptr;
}

void Listener::serve(Slot& own, uint32_t rung) noexcept {
  if (const uint64_t wanted = own.wanted_guarantee.exchange(0); wanted != 0) {
    (void)membership_.set_guarantee(wanted - 1);
  }
  if (own.asked.load() != 0) {
    rest(own, rung);
    const uint64_t asked = own.asked.exchange(0);
    const bool may_sleep = own.asked_to_sleep.exchange(0) != 0;
    if (!stops_->load() && !is_needier(own)) release_asked(own, asked, may_sleep);
    own.asked_until.store(0);
  }
  own.answered.store(rung);
  ring(membership_.header().freed);
}

/// Whether it gives nothing: it waits for memory itself, and has less than the asker.
bool Listener::is_needier(const Slot& own) const noexcept {
  if (own.asked_priority.load() > own.priority.load()) return false;
  return own.ticket.load() != 0 && own.asked_by_rich.load() != 0 && membership_.beyond_share() <= 0;
}

/// Delays an answer if the same bytes would only go back and forth, or would go from a growing member with
/// less to one with more. Never for longer than half the time that the asker has left, nor for an asker of
/// higher priority, nor where a member with clearly more than an equal share gives to one with less.
void Listener::rest(Slot& own, uint32_t rung) noexcept {
  uint64_t now = now_ns();
  const uint64_t charges = membership_.charges();
  if (charges != charges_seen_) grew_at_ = now;
  charges_seen_ = charges;
  const bool has_taken_since = charges != charges_then_;
  if (own.asked_priority.load() > own.priority.load()) return;
  const bool asker_is_rich = own.asked_by_rich.load() != 0;
  const bool is_poor =
      asker_is_rich && membership_.beyond_share() <= 0 && now - grew_at_ < policy::kGrowingNs;
  const bool is_fair = !asker_is_rich && membership_.beyond_share() > policy::kFair;
  if (!is_poor && (is_fair || !has_taken_since)) return;
  const uint64_t until = std::min(own.asked_until.load(), now + kLongestWait);
  const uint64_t half = now + (until > now ? until - now : 0) / 2;
  const uint64_t end = is_poor ? half : std::min(immune_until_, half);
  for (; now < end && !stops_->load() && own.bell.load() == rung; now = now_ns()) {
    wait_for(own.bell, rung, end - now);
  }
}

/// Releases cached memory, down to the guarantee; then that of pools that may be put to sleep.
void Listener::release_asked(Slot& own, uint64_t asked, bool may_sleep) noexcept {
  const uint64_t start = now_ns();
  const uint64_t due = std::min(asked, membership_.spare());
  uint64_t given = due == 0 ? 0 : owner_.release(due);
  if (may_sleep && given < due) given += owner_.put_to_sleep(due - given, 0);
  const uint64_t end = now_ns();
  membership_.note_live(owner_.live_bytes());
  if (given == 0) return;
  given_.fetch_add(given, std::memory_order_relaxed);
  own.given.store(given_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  immune_until_ = end + policy::kRestTimes * (end - start);
  charges_then_ = membership_.charges();
}

}  // namespace gpupool::internal::share
