// SPDX-License-Identifier: Apache-2.0
// What other processes, such as `gpupool top`, see of a pool. Whoever gives up the pool's lock writes it: at
// once if the reserved bytes differ from those shown, since changing them has cost driver calls anyway, and
// else at most every 10 ms. What threads do with their caches alone takes no such lock, and is shown with the
// next call that does.
#pragma once

#include <cstdint>

#include "base/no_copy.hpp"
#include "pool/rules/pool_lock.hpp"
#include "watch/stats_page.hpp"

namespace gpupool::internal {

class Sampler;
class Sleeper;
class Watcher;
struct PoolState;

/// Guarded by the pool's lock.
class Display final : public Onlooker, NoCopy {
 public:
  Display(PoolState& pool, Watcher& watcher, const Sampler& sampler, const Sleeper& sleeper) noexcept
      : pool_(pool), watcher_(watcher), sampler_(sampler), sleeper_(sleeper) {}

  /// From now on, shows the figures in a slot of this process's page; null: no longer. Takes the pool's lock.
  void show_in(wire::stats::Slot* slot) noexcept;

  void look() noexcept override;

  wire::stats::Slot* slot() const noexcept { return slot_; }
  /// In a child after fork: the slot is the parent's.
  void forget_slot() noexcept { slot_ = nullptr; }

 private:
  void show(uint64_t now) noexcept;
  void add_amounts(wire::stats::Counts& counts) const noexcept;
  void add_tags(wire::stats::Figures& figures) const noexcept;

  PoolState& pool_;
  Watcher& watcher_;
  const Sampler& sampler_;
  const Sleeper& sleeper_;
  wire::stats::Slot* slot_ = nullptr;  // null: other processes see nothing of the pool
  uint64_t shown_at_ = 0;
  uint64_t shown_reserved_ = 0;
};

}  // namespace gpupool::internal
