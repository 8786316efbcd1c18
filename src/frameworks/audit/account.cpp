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
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > cap || bytes > cap - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  raise_peak(used + bytes);
  return true;
}

void Account::force(uint64_t bytes) noexcept {
  raise_peak(used_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

uint64_t Account::room() const noexcept {
  const uint64_t used = this->used();
  if (cap == UINT64_MAX) return cap;
  return cap > used ? cap - used : 0;
}

bool Pooled::take(Account& account, uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t live = live_ + bytes;
  if (live < bytes) return false;
  const uint64_t more = live > charged_ ? live - charged_ : 0;
  if (more != 0 && !account.take(more)) return false;
  live_ = live;
  charged_ += more;
  ++changes_;
  ++under_way_;
  return true;
}

void Pooled::land() noexcept {
  const std::lock_guard lock(lock_);
  --under_way_;
}

uint64_t Pooled::changes() noexcept {
  const std::lock_guard lock(lock_);
  return changes_;
}

void Pooled::give(uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  live_ -= bytes;
}

void Pooled::settle(Account& account, uint64_t held, uint64_t changes) noexcept {
  const std::lock_guard lock(lock_);
  const uint64_t right = std::max(live_, held);
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

CUmemoryPool* Pooled::find(CUmemoryPool pool) noexcept {
  const auto found = std::find(pools_.begin(), pools_.end(), pool);
  return found != pools_.end() ? &*found : nullptr;
}

void Pooled::add(CUmemoryPool pool) noexcept {
  const std::lock_guard lock(lock_);
  if (find(pool) != nullptr) return;
  if (CUmemoryPool* const free = find(nullptr); free != nullptr) *free = pool;
}

bool Pooled::remove(CUmemoryPool pool) noexcept {
  const std::lock_guard lock(lock_);
  CUmemoryPool* const found = pool != nullptr ? find(pool) : nullptr;
  if (found != nullptr) *found = nullptr;
  return found != nullptr;
}

bool Pooled::knows(CUmemoryPool pool) noexcept {
  const std::lock_guard lock(lock_);
  return pool != nullptr && find(pool) != nullptr;
}

size_t Pooled::copy(std::array<CUmemoryPool, kMostPools>& to) noexcept {
  const std::lock_guard lock(lock_);
  const auto end = std::copy_if(pools_.begin(), pools_.end(), to.begin(),
                                [](CUmemoryPool pool) { return pool != nullptr; });
  return static_cast<size_t>(end - to.begin());
}

}  // namespace gpupool::audit
