// SPDX-License-Identifier: Apache-2.0
// Memory beyond the least that the blocks need: when to create more rather than move what there is, and how
// much of it to keep.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/counters.hpp"
#include "core/governor.hpp"
#include "pool/cache/caches.hpp"
#include "pool/rules/ledger.hpp"
#include "pool/rules/metered_device.hpp"
#include "pool/rules/options.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// Tells the governor, which knows only times and bytes, what the pool has and does. Guarded by the pool's
/// lock.
class Surplus {
 public:
  Surplus(const PoolOptions& options, MeteredDevice& device, const Ledger& ledger, const Space& space,
          const Streams& streams, const Counters& counters) noexcept
      : options_(options),
        device_(device),
        ledger_(ledger),
        space_(space),
        streams_(streams),
        counters_(counters),
        window_(device.now_ns()) {}

  // What the pool is about to do. Times are in nanoseconds of the device's clock.

  /// A heap is about to serve a block of `bytes`.
  void note_use(StreamHeap& heap, uint64_t bytes) noexcept;
  /// Whether `bytes`, what a place lacks for a request, should be created though free memory could be moved:
  /// within the slack that the user allows, or if the governor can afford it.
  bool prefers_creating(uint64_t bytes, uint64_t now) noexcept;
  /// Whether a stream takes from another only what that one is not entitled to, and creates `bytes` if that
  /// is not enough: after too many moves, while the pool holds little more than was in use at once.
  bool keeps_apart(uint64_t bytes, uint64_t now) const noexcept;
  /// Whether streams have taken too much from each other by moving it.
  bool moved_too_much(uint64_t now) const noexcept { return governor_.keeps_apart(now); }
  /// Whether threads keep what they have cached of small or of large blocks, and a miss creates `bytes` if
  /// nothing else is free: after they drained each other too often, while the pool holds little more than
  /// what is live in these caches.
  bool keeps_caches_apart(SizeGroup group, uint64_t bytes, const Caches& caches) noexcept;
  bool is_within_slack(uint64_t bytes) const noexcept;
  /// Whether `bytes` may be created though caches keep free memory: the pool then holds little more than was
  /// live at once, and leaves room. Asks nobody.
  bool spares_draining(uint64_t bytes) const noexcept;
  /// Whether there is room for memory that the pool could do without: within the slack that the user allows,
  /// or else if enough is left, under the limit and on the device, for those who need it. Asks the driver.
  bool has_room(uint64_t bytes) const;

  // What the pool has done.

  void created(uint64_t bytes) noexcept { governor_.created(bytes); }
  /// Counts bytes that came from other streams, and from elsewhere in the same one, and how long that took.
  void moved(uint64_t between, uint64_t within, uint64_t nanoseconds) noexcept;

  /// Blocks were drained that threads were about to use again.
  void drained(SizeGroup group, size_t blocks) noexcept;
  /// A malloc found too little memory: caches keep nothing that others lack.
  void ran_short() noexcept;
  void stole_run(uint64_t now) noexcept { governor_.stole_run(now); }

  /// True once after each window of time; after fewer of them if what went was soon created again. What is
  /// reserved beyond kept() is then to be released.
  bool is_due() noexcept;
  /// Some of the `before` bytes were released.
  void gave_back(uint64_t before) noexcept;
  /// What was in use at once, and some more, but no more than entitled().
  uint64_t kept() const noexcept;
  /// What streams are entitled to, or the live peak if that is more.
  uint64_t entitled() const noexcept;

 private:
  static constexpr uint64_t kNothingWent = ~uint64_t{0};

  void begin_window() noexcept;
  CacheRest& rest_of(SizeGroup group) noexcept { return rests_[static_cast<size_t>(index_of(group))]; }
  /// The part of the limit and of the device that is left to those who need it.
  uint64_t room_parts() const noexcept;
  /// Whether so much is left of the limit. Asks nobody.
  bool leaves_room(uint64_t bytes) const noexcept;
  /// The most that was in use at one moment, not long ago.
  uint64_t at_once() const noexcept { return std::max(at_once_now_, at_once_before_); }

  const PoolOptions& options_;
  MeteredDevice& device_;
  const Ledger& ledger_;
  const Space& space_;
  const Streams& streams_;
  const Counters& counters_;
  Governor governor_;
  std::array<CacheRest, kGroups> rests_;
  uint64_t most_used_ = 0;       // by the blocks of each heap, summed
  uint64_t at_once_now_ = 0;     // the most at one moment: in this window of time,
  uint64_t at_once_before_ = 0;  // and in the one before
  uint64_t window_;              // when the window of time for measuring it began
  bool is_due_ = false;
  uint64_t taken_back_ = kNothingWent;  // if so much is reserved when the window ends, what went came back
  uint32_t pause_ = 0;                  // windows to leave out after a release, as often as that has happened
  uint32_t paused_ = 0;                 // windows still to leave out
};

}  // namespace gpupool::internal
