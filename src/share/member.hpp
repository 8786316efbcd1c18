// SPDX-License-Identifier: Apache-2.0
// A process as a member of a group: what it is charged, how it answers its neighbours and asks them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "share/listener.hpp"
#include "share/membership.hpp"
#include "share/owner.hpp"
#include "share/turn.hpp"

namespace gpupool::internal::share {

/// All functions may be called from any thread, but for the first and the last.
class Member : public Membership, public std::enable_shared_from_this<Member> {
 public:
  Member(std::unique_ptr<Owner> owner, const Place& place) : Membership(place), owner_(std::move(owner)) {}
  /// Leaves: puts everything back.
  ~Member();

  /// `free`: as for join(). UNAVAILABLE, with the reason.
  Status begin(uint64_t free, BrokerCall& call);
  bool is_owned_by(const Owner* owner) const noexcept { return owner_.get() == owner; }

  Turns& turns() noexcept { return turns_; }
  /// Bytes given back because neighbours asked, and obtained by asking them.
  uint64_t given() const noexcept { return listener_.given(); }
  uint64_t taken() const noexcept { return turns_.taken(); }

 private:
  const std::unique_ptr<Owner> owner_;
  Listener listener_{*this, *owner_};
  Turns turns_{*this, *owner_};
};

/// This process's place in a group: one, whichever pools share it. `free`: what the device has free; ~0 if
/// unknown. UNAVAILABLE, with the reason: the process cannot be a member, and runs alone.
Status join(const Place& place, uint64_t free, std::unique_ptr<Owner> owner, std::shared_ptr<Member>& member);

/// In a child after fork, which is a member of no group. Call it with members_mutex.
void forget_members() noexcept;

}  // namespace gpupool::internal::share
