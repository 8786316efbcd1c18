// SPDX-License-Identifier: Apache-2.0
// Decides when to reserve more memory instead of moving what there is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/policy.hpp"

namespace gpupool::internal {

/// Slow work may take a share of the elapsed time. Time beyond that is remembered until enough time has
/// passed, up to a burst; beyond the burst it is overspent.
class TimeShare {
 public:
  explicit TimeShare(uint64_t burst_ns) noexcept { set_burst(burst_ns); }

  void set_burst(uint64_t nanoseconds) noexcept { burst_ = nanoseconds * policy::kTimeParts; }

  void spend(uint64_t nanoseconds, uint64_t now) noexcept {
    pass(now);
    over_ = std::min(over_ + nanoseconds * policy::kTimeParts, 2 * burst_);
  }
  bool is_overspent() const noexcept { return over_ >= burst_; }

 private:
  void pass(uint64_t now) noexcept {
    over_ -= std::min(over_, now - std::min(now, last_));
    last_ = std::max(now, last_);
  }

  uint64_t burst_ = 0;
  uint64_t over_ = 0;  // nanoseconds that must pass until use is within the share again
  uint64_t last_ = 0;
};

/// Moving memory, to other addresses or another stream, costs time again and again; creating memory costs
/// time once, and it stays reserved. While there is room:
///
/// Between streams: once streams have overspent on taking memory from each other, they keep apart for a
/// while. Each is then entitled to what its blocks ever took, and creates what it lacks rather than take it
/// from another. So a repeating workload comes to rest where each stream has enough.
///
/// Within a stream: moves made while its time is overspent earn credit, in bytes, which is spent by creating
/// instead. So no more is created than was moved too often.
///
/// Pure arithmetic on the caller's times, in nanoseconds, which never decrease.
class Governor {
 public:
  /// `held`: the bytes that the pool holds. The more, the more there is to arrange while it grows.
  void moved_between(uint64_t nanoseconds, uint64_t held, uint64_t now) noexcept {
    const uint64_t beyond = held - std::min(held, policy::kBurstFirstBytes);
    between_.set_burst(policy::kBurstBetweenNs + beyond / policy::kBurstBytesPerNs);
    between_.spend(nanoseconds, now);
    if (between_.is_overspent()) apart_until_ = now + policy::kApartNs;
  }

  /// A run was stolen where it is.
  void stole_run(uint64_t now) noexcept {
    in_place_.spend(policy::kStealRunNs, now);
    if (in_place_.is_overspent()) apart_in_place_until_ = now + policy::kApartNs;
  }

  void moved_within(uint64_t bytes, uint64_t nanoseconds, uint64_t held, uint64_t now) noexcept {
    expire(now);
    within_.set_burst(held <= policy::kSmallPool ? policy::kBurstBetweenNs : policy::kBurstWithinNs);
    within_.spend(nanoseconds, now);
    if (within_.is_overspent()) credit_ += bytes / policy::kCreditParts;
  }

  /// Whether streams keep apart, for moves and for runs stolen where they are.
  bool keeps_apart(uint64_t now) const noexcept { return now < apart_until_; }
  bool keeps_apart_in_place(uint64_t now) const noexcept { return now < apart_in_place_until_; }

  /// Whether the credit at `now` pays for `bytes`.
  bool affords(uint64_t bytes, uint64_t now) noexcept {
    expire(now);
    return bytes <= credit_;
  }
  void created(uint64_t bytes) noexcept { credit_ -= std::min(credit_, bytes); }

 private:
  /// Halves the credit once per half-life, linearly in between.
  void expire(uint64_t now) noexcept {
    uint64_t elapsed = now - std::min(now, expired_);
    expired_ = std::max(now, expired_);
    for (; elapsed >= policy::kHalfLifeNs && credit_ != 0; elapsed -= policy::kHalfLifeNs) credit_ /= 2;
    const double part = static_cast<double>(elapsed) / (2.0 * static_cast<double>(policy::kHalfLifeNs));
    credit_ -= static_cast<uint64_t>(static_cast<double>(credit_) * part);
  }

  TimeShare between_{policy::kBurstBetweenNs};
  TimeShare in_place_{policy::kBurstBetweenNs};
  TimeShare within_{policy::kBurstWithinNs};
  uint64_t apart_until_ = 0;
  uint64_t apart_in_place_until_ = 0;
  uint64_t credit_ = 0;   // bytes
  uint64_t expired_ = 0;  // when that was last done
};

/// The same between threads, of small or of large blocks: once they have drained each other's caches too
/// often, they keep these for a while, and a miss creates memory instead. So they come to rest where each has
/// what it takes in turn. Where they do not, because there is too little memory for that, they keep nothing
/// for a while, each time a longer one.
class CacheRest {
 public:
  /// Blocks were drained that threads were about to use again.
  void drained(size_t blocks, uint64_t now) noexcept {
    drains_.spend(blocks * policy::kDrainNs, now);
    if (drains_.is_overspent() && now >= paused_until_) apart_until_ = now + policy::kApartNs;
  }
  /// False: nothing is kept, whatever the time is.
  bool has_begun() const noexcept { return apart_until_ != 0; }
  bool keeps_apart(uint64_t now) const noexcept { return now < apart_until_; }
  /// There was too little memory for it.
  void fail(uint64_t now) noexcept {
    if (!keeps_apart(now)) return;
    pause_ = std::min(2 * pause_ + 1, policy::kLongestPause);
    paused_until_ = now + pause_ * policy::kApartNs;
    apart_until_ = 0;
  }

 private:
  TimeShare drains_{policy::kBurstBetweenNs};
  uint64_t apart_until_ = 0;
  uint64_t paused_until_ = 0;
  uint32_t pause_ = 0;  // windows of time
};

}  // namespace gpupool::internal
