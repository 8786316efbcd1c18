// SPDX-License-Identifier: Apache-2.0
// A pool's part in a group of processes that share a device's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/budget.hpp"
#include "device/device.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

class QuietLock;
struct Rooms;

/// What gpupool_config_t says about sharing, checked.
struct ShareTerms {
  uint64_t guaranteed = 0;
  int32_t priority = 0;
  uint64_t wait_ns = 50'000'000;
};

/// The part of one pool and its children. All pools of a process that share the same memory are one member.
class Neighbours final : public Commons {
 public:
  /// UNAVAILABLE: the process cannot be a member. OVER_LIMIT: the group cannot guarantee that much.
  static Status join(const share::Place& place, const ShareTerms& terms, Device& device,
                     std::unique_ptr<Neighbours>& group);
  Neighbours(std::shared_ptr<share::Member> member, const ShareTerms& terms) noexcept
      : member_(std::move(member)), terms_(terms) {}
  ~Neighbours() override;

  bool charge(uint64_t bytes) noexcept override { return member_->charge(bytes); }
  void refund(uint64_t bytes) noexcept override { member_->refund(bytes); }
  uint64_t room() const noexcept override { return member_->room(); }
  uint64_t limit() const noexcept override { return member_->limit(); }

  share::Member& member() const noexcept { return *member_; }
  uint64_t wait_ns() const noexcept { return terms_.wait_ns; }
  int32_t priority() const noexcept { return terms_.priority; }

 private:
  std::shared_ptr<share::Member> member_;
  ShareTerms terms_;
};

/// With whom a pool shares.
struct Company {
  const Neighbours* neighbours = nullptr;  // owned by the limit, which children share; null: nobody
  bool runs_alone = false;                 // though it was to share
};

// With the pool's lock, which they give up.

/// Waits until the group and the device have `bytes` for this pool, for as long as it waits by its own terms.
/// False if they do not, or if it shares with nobody. As long as `turn` lives, the group keeps them for this
/// process.
bool ask_neighbours(QuietLock& lock, const Rooms& rooms, uint64_t bytes, std::optional<share::Turn>& turn);
/// Asks now, ahead of need.
Status request_from_neighbours(QuietLock& lock, const Rooms& rooms, uint64_t bytes, uint64_t wait_ns);

}  // namespace gpupool::internal
