// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/account.hpp"

#include <algorithm>
#include <mutex>

namespace gpupool::audit {

constinit uint64_t cap = UINT64_MAX;

void Account::raise_peak(uint64_t used) noexcept {
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (used > peak && !peak_.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

bool Account::take(uint64_t bytes) noexcept {
  if (shares) [[unlikely]]
    return take_shared(bytes);
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > cap || bytes > cap - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

bool Account::take_shared(uint64_t bytes) noexcept {
  const std::lock_guard lock(share_lock_);
  const uint64_t used = this->used();
  if (used > cap || bytes > cap - used || !share_.change_to(used + bytes)) return false;
  used_.store(used + bytes, std::memory_order_relaxed);
  return true;
}

void Account::change_shared(int64_t bytes) noexcept {
  const std::lock_guard lock(share_lock_);
  const uint64_t now = used() + static_cast<uint64_t>(bytes);
  share_.force_to(now);
  used_.store(now, std::memory_order_relaxed);
}

void Account::force(uint64_t bytes) noexcept {
  if (shares) [[unlikely]] {
    change_shared(static_cast<int64_t>(bytes));
    return raise_peak(used());
  }
  raise_peak(used_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

uint64_t Account::room() const noexcept {
  const uint64_t used = this->used();
  const uint64_t left = cap > used ? cap - used : 0;
  return std::min(cap == UINT64_MAX ? cap : left, share_.room(used));
}

bool Pooled::take(Account& account, uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t live = live_ + bytes;
  if (live < bytes || account.is_beyond_cap()) return false;
  const uint64_t more = live > charged_ ? live - charged_ : 0;
  if (more != 0 && !account.take(more)) return false;
  live_ = live;
  charged_ += more;
  ++changes_;
  ++under_way_;
  return true;
}

void Pooled::land(Account& account) noexcept {
  const std::lock_guard lock(lock_);
  --under_way_;
  end_if_unused(account);
}

uint64_t Pooled::changes() noexcept {
  const std::lock_guard lock(lock_);
  return changes_;
}

void Pooled::give(Account& account, uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  live_ -= bytes;
  end_if_unused(account);
}

void Pooled::settle(Account& account, uint64_t held, uint64_t changes) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t right = std::max(live_, held);
  if (state_ == State::destroyed) return;
  if (right > charged_) {
    account.force(right - charged_);
  } else if (changes == changes_ && under_way_ == 0) {
    account.give(charged_ - right);
  } else {
    return;
  }
  charged_ = right;
  ++changes_;
}

bool Pooled::has_slack() noexcept {
  const std::lock_guard lock(lock_);
  return charged_ > live_;
}

bool Pooled::begin() noexcept {
  const std::lock_guard lock(lock_);
  if (state_ != State::none) return false;
  state_ = State::there;
  return true;
}

void Pooled::end(Account& account) noexcept {
  const std::lock_guard lock(lock_);
  state_ = State::destroyed;
  end_if_unused(account);
}

/// With the lock.
void Pooled::end_if_unused(Account& account) noexcept {
  if (state_ != State::destroyed || live_ != 0 || under_way_ != 0) return;
  account.give(charged_);
  charged_ = 0;
  ++changes_;
  state_ = State::none;
}

}  // namespace gpupool::audit
