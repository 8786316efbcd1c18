// SPDX-License-Identifier: Apache-2.0
// The wakes of this process that wait for memory, in the order in which they began to.
//
// What comes free is for the first of those that wait for it: a wake that has time leaves it alone if one
// that came before waits. So no pool starves, however often smaller ones sleep and wake. It takes no lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/no_copy.hpp"

namespace gpupool::internal {

/// Something that may be short: a device's memory, a limit, what a group leaves. 0: nothing.
using Scarce = uint64_t;

/// A wake's place in the queue, once it waits.
class WakePlace : NoCopy {
 public:
  /// `slept_at`: the step in which what is to wake went to sleep.
  explicit WakePlace(uint64_t slept_at) noexcept : number_(slept_at) {}
  ~WakePlace();

  /// Which of these others wait for who come first: those that began to wait before this one did; before it
  /// waits, those that began to before it slept, since it has had its turn. 0: nobody.
  template <size_t kCount>
  Scarce find_ahead(const std::array<Scarce, kCount>& needs) const noexcept {
    for (const Scarce need : needs) {
      if (need != 0 && has_ahead(need)) return need;
    }
    return 0;
  }
  /// It waits for this from now on. If too many wait, it has no place, and takes what it finds.
  void wait_for(Scarce need) noexcept;

  /// The number of a new step.
  static uint64_t next_step() noexcept;
  /// In a child after fork, where nobody waits.
  static void forget_all() noexcept;

 private:
  bool has_ahead(Scarce need) const noexcept;

  static constexpr size_t kNone = ~size_t{0};

  uint64_t number_;  // until it waits, of its sleep; then, of when it began
  bool waits_ = false;
  size_t slot_ = kNone;
};

}  // namespace gpupool::internal
