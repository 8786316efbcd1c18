// SPDX-License-Identifier: Apache-2.0
// What other processes, such as `gpupool top`, see of a pool. Whoever gives up the pool's lock writes it: at
// once if the reserved bytes differ from those shown, since changing them has cost driver calls anyway, and
// else at most every 10 ms. What threads do with their caches alone takes no such lock, and is shown with the
// next call that does.
#pragma once

#include <cstdint>

#include "watch/stats_page.hpp"

namespace gpupool::internal {

class Sampler;
class WaitedMutex;
struct Rooms;

/// Guarded by the pool's lock, which it takes where that is said.
class Display {
 public:
  Display(WaitedMutex& mutex, const Rooms& rooms, const Sampler& sampler) noexcept
      : mutex_(mutex), rooms_(rooms), sampler_(sampler) {}
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  // With no lock held: these take the pool's.

  /// From now on, shows the figures in a slot of this process's page; null: no longer.
  void show_in(shown::Slot* slot) noexcept;
  /// Shows the figures anew, at once: those shown are known to be old.
  void show_again() noexcept;

  /// With the pool's lock, as the last step before it is given up.
  void show_if_due() noexcept;

  shown::Slot* slot() const noexcept { return slot_; }
  /// In a child after fork: the slot is the parent's.
  void forget_slot() noexcept { slot_ = nullptr; }

 private:
  void show(uint64_t now) noexcept;
  void add_amounts(shown::Figures& figures) const noexcept;
  void add_ranges(shown::Figures& figures) const noexcept;
  void add_tags(shown::Figures& figures) const noexcept;

  WaitedMutex& mutex_;
  const Rooms& rooms_;
  const Sampler& sampler_;
  shown::Slot* slot_ = nullptr;  // null: other processes see nothing of the pool
  uint64_t shown_at_ = 0;        // 0: the figures shown are known to be old
  uint64_t shown_reserved_ = 0;
};

}  // namespace gpupool::internal
