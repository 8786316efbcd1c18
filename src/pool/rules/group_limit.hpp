// SPDX-License-Identifier: Apache-2.0
// A pool's part in a group of processes that share a device's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/budget.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

/// What gpupool_config_t says about sharing, checked.
struct ShareTerms {
  uint64_t guaranteed = 0;
  int32_t priority = 0;
  uint64_t wait_ns = 50'000'000;
};

/// The part of one pool and its children. All pools of a process that share the same memory are one member.
class GroupLimit final : public Commons {
 public:
  GroupLimit(std::shared_ptr<share::Member> member, const ShareTerms& terms) noexcept
      : member_(std::move(member)), terms_(terms) {}
  ~GroupLimit() override;

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
struct GroupLink {
  const GroupLimit* limit = nullptr;  // owned by the limit, which children share; null: nobody
  bool runs_alone = false;            // though it was to share
};

}  // namespace gpupool::internal
