// SPDX-License-Identifier: Apache-2.0
#include "base/interrupts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace gpupool::internal::interrupts {
namespace {

/// A pair that was there once. A place is never given to another pair, so whoever reads one needs no lock.
struct Check {
  enum State : uint32_t { kFree, kTaken, kOff, kOn };

  std::atomic<uint32_t> state{kFree};
  gpupool_interrupt_fn_t fn = nullptr;
  void* user = nullptr;

  bool is(gpupool_interrupt_fn_t of, void* with) const noexcept {
    return state.load(std::memory_order_acquire) >= kOff && fn == of && user == with;
  }
};

constinit std::array<Check, 16> checks{};
constinit std::atomic<uint32_t> count_on{0};

/// Of the thread's call. Trivial, so that it outlives whatever else a thread has.
struct Call {
  uint32_t off = 0;  // how many Off live
  bool has_given_up = false;
  gpupool_wait_t wait = GPUPOOL_WAIT_WAKE;  // what it gave up
};
constinit thread_local Call call;

Check* find_or_take(gpupool_interrupt_fn_t fn, void* user) noexcept {
  for (Check& each : checks)
    if (each.is(fn, user)) return &each;
  for (Check& each : checks) {
    uint32_t state = Check::kFree;
    if (!each.state.compare_exchange_strong(state, Check::kTaken, std::memory_order_relaxed)) continue;
    each.fn = fn;
    each.user = user;
    each.state.store(Check::kOff, std::memory_order_release);
    return &each;
  }
  return nullptr;
}

/// All are asked: each may have something to do on this thread, such as a signal's handler.
bool ask_all(gpupool_wait_t wait) noexcept {
  bool is_over = false;
  for (const Check& each : checks) {
    if (each.state.load(std::memory_order_acquire) == Check::kOn && each.fn(each.user, wait) != 0)
      is_over = true;
  }
  return is_over;
}

const char* words_of(gpupool_wait_t wait) noexcept {
  switch (wait) {
    case GPUPOOL_WAIT_WAKE: return "the sleeping pool to be woken";
    case GPUPOOL_WAIT_TURN: return "another thread's sleep or wake of the pool";
    case GPUPOOL_WAIT_MEMORY: return "memory of others";
    default: return "the device";
  }
}

}  // namespace

Status set_check(gpupool_interrupt_fn_t fn, void* user, bool on) noexcept {
  if (fn == nullptr) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "fn is NULL");
  if (!on) {
    bool was_on = false;
    for (Check& each : checks) {
      if (!each.is(fn, user)) continue;
      if (each.state.exchange(Check::kOff, std::memory_order_relaxed) != Check::kOn) continue;
      count_on.fetch_sub(1, std::memory_order_relaxed);
      was_on = true;
    }
    return was_on ? kSuccess
                  : fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "fn with this user is no interrupt check now");
  }
  Check* const check = find_or_take(fn, user);
  if (check == nullptr) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "the process has had %zu interrupt checks, and cannot have another", checks.size());
  }
  if (check->state.exchange(Check::kOn, std::memory_order_release) != Check::kOn)
    count_on.fetch_add(1, std::memory_order_relaxed);
  return kSuccess;
}

bool are_possible() noexcept {
  return count_on.load(std::memory_order_relaxed) != 0 && call.off == 0;
}

bool has_given_up() noexcept {
  return call.has_given_up && call.off == 0;
}

Status give_up() noexcept {
  return fail(GPUPOOL_ERROR_INTERRUPTED, "interrupted while it waited for %s", words_of(call.wait));
}

Status end_call(Status status) noexcept {
  if (!call.has_given_up || call.off != 0) return status;
  call.has_given_up = false;
  return status == GPUPOOL_ERROR_INTERRUPTED ? status : give_up();
}

bool Patience::is_due() const noexcept {
  return has_given_up() || (are_possible() && Clock::now() >= next_);
}

bool Patience::is_over() noexcept {
  if (!is_due()) return false;
  if (has_given_up()) return true;
  const KeepError keep_error;
  const bool is_over = ask_all(wait_);
  next_ = Clock::now() + kSlice;
  if (!is_over) return false;
  call.has_given_up = true;
  call.wait = wait_;
  return true;
}

Off::Off() noexcept {
  ++call.off;
}

Off::~Off() {
  --call.off;
}

void rest_before_look(std::chrono::nanoseconds waited) noexcept {
  using std::chrono::microseconds;
  constexpr microseconds kAtOnce{50};  // a sleep would take longer than most such waits
  constexpr std::chrono::nanoseconds kLongest = microseconds{500};
  if (waited < kAtOnce) return std::this_thread::yield();
  std::this_thread::sleep_for(std::min(waited / 8, kLongest));
}

}  // namespace gpupool::internal::interrupts
