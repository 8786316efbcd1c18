// SPDX-License-Identifier: Apache-2.0
// Waits that can be ended: gpupool_set_interrupt_check. Everything that may wait for long, on whatever, waits
// in slices, and asks in between; the cost is one relaxed load where nobody has asked to be asked.
//
// Once a check has said so, the thread's call gives up: all further waits of it end at once, and whatever
// status its failure would have, it fails with INTERRUPTED (end_call()). So what lies between a wait and the
// call need not pass anything on, as long as it fails.
#pragma once

#include <chrono>

#include "base/no_copy.hpp"
#include "base/status.hpp"

namespace gpupool::internal::interrupts {

/// How long a wait goes on without asking.
inline constexpr std::chrono::milliseconds kSlice{50};

/// What gpupool_set_interrupt_check does.
Status set_check(gpupool_interrupt_fn_t fn, void* user, bool on) noexcept;

/// Whether waits of this thread may be ended: if not, they need no slices.
bool are_possible() noexcept;

/// Whether a check has ended the call of this thread.
bool has_given_up() noexcept;

/// The failure of a wait that was ended.
[[gnu::cold]] Status give_up() noexcept;

/// At the end of a call that has failed with `status`. Returns the status that it fails with.
Status end_call(Status status) noexcept;

/// One wait of a call.
class Patience : NoCopy {
 public:
  explicit Patience(gpupool_wait_t wait) noexcept : wait_(wait) {}

  /// Whether is_over() has to be asked now: at first, and after each slice.
  bool is_due() const noexcept;
  /// Whether the wait is to end. Runs functions of the user, so no lock may be held. Leaves last_error().
  bool is_over() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  const gpupool_wait_t wait_;
  Clock::time_point next_{};
};

/// While it lives, this thread's waits are not ended: what must be undone or ended, is.
class Off : NoCopy {
 public:
  Off() noexcept;
  ~Off();
};

/// Waits in slices, without a lock, until look(passed) has set `passed`; for what nobody tells of, such as a
/// device's work. At first it looks again at once, then after an eighth of the time so far, at most half a
/// millisecond.
template <typename Look>
Status look_until_passed(gpupool_wait_t wait, Look look);

/// For look_until_passed().
void rest_before_look(std::chrono::nanoseconds waited) noexcept;

template <typename Look>
Status look_until_passed(gpupool_wait_t wait, Look look) {
  Patience patience(wait);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    bool passed = false;
    if (const Status status = look(passed); status != kSuccess || passed) return status;
    if (patience.is_over()) return give_up();
    rest_before_look(std::chrono::steady_clock::now() - start);
  }
}

}  // namespace gpupool::internal::interrupts
