// SPDX-License-Identifier: Apache-2.0
#include "pool/process/pools_of_group.hpp"

#include <new>
#include <utility>
#include <vector>

#include "pool/pool.hpp"
#include "pool/process/registry.hpp"
#include "pool/process/sleep_all.hpp"

namespace gpupool::internal {
namespace {

/// The pools of this process that are one member of a group. Finds them each time, since they come and go.
class PoolsOfGroup final : public share::Owner {
 public:
  uint64_t release(uint64_t bytes) noexcept override {
    uint64_t given = 0;
    visit([&](Pool& pool) {
      if (given >= bytes || pool.options().is_child) return;
      // What the GPU has passed; if that is not enough, after a wait.
      uint64_t released = 0;
      (void)pool.trim_by(bytes - given, released, "a neighbour is short");
      given += released;
    });
    return given;
  }

  uint64_t put_to_sleep(uint64_t bytes, uint64_t asker) noexcept override {
    try {
      std::vector<std::shared_ptr<Pool>> pools = Registry::instance().all();
      std::erase_if(pools, [&](const auto& pool) { return pool->id() == asker || !is_of_group(*pool); });
      return sleep_allowed(std::move(pools), bytes);
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }

  uint64_t live_bytes() noexcept override {
    uint64_t live = 0;
    visit([&](Pool& pool) { live += pool.live_bytes(); });
    return live;
  }

  bool free_bytes(uint64_t& free) noexcept override {
    bool is_known = false;
    visit([&](Pool& pool) {
      if (!is_known) is_known = pool.device().raw().free_memory(free) == kSuccess;
    });
    return is_known;
  }

 private:
  bool is_of_group(const Pool& pool) const noexcept {
    const GroupLimit* const group = pool.group();
    return group != nullptr && group->member().is_owned_by(this) && pool.is_live();
  }
  template <typename Visit>
  void visit(Visit each) noexcept {
    try {
      for (const auto& pool : Registry::instance().all()) {
        if (is_of_group(*pool)) each(*pool);
      }
    } catch (const std::bad_alloc&) {
      return;  // nothing is given if the host has no memory for a list of pools
    }
  }
};

}  // namespace

Status join_group(const share::Place& place, const ShareTerms& terms, Device& device,
                  std::unique_ptr<GroupLimit>& group) {
  uint64_t free = 0;
  if (device.free_memory(free) != kSuccess) free = ~uint64_t{0};
  std::shared_ptr<share::Member> member;
  const Status status = share::join(place, free, std::make_unique<PoolsOfGroup>(), member);
  if (status != kSuccess) return status;
  const Status sure = member->change_guarantee(static_cast<int64_t>(terms.guaranteed));
  if (sure != kSuccess) return sure;
  member->raise_priority(terms.priority);
  group = std::make_unique<GroupLimit>(std::move(member), terms);
  return kSuccess;
}

}  // namespace gpupool::internal
