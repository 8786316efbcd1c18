// SPDX-License-Identifier: Apache-2.0
// A group from outside: reading, setting and repairing a region without being a member.
#pragma once

#include <vector>

#include "base/no_copy.hpp"
#include "share/region.hpp"

namespace gpupool::internal::share {

struct Neighbour {
  uint32_t slot = 0;
  bool is_dead = false;  // and its memory is not yet confirmed free
  bool waits = false;
  int32_t priority = 0;
  uint64_t pid = 0;
  uint64_t uid = 0;
  uint64_t reserved = 0;  // bytes, as all amounts here
  uint64_t charged = 0;
  uint64_t live = 0;
  uint64_t guaranteed = 0;
  uint64_t limit = 0;
  uint64_t want = 0;
  uint64_t given = 0;
  uint64_t taken = 0;
  char name[33] = {};
};

struct Standing {
  uint64_t limit = 0;
  uint64_t used = 0;
  uint64_t total = 0;
  uint64_t foreign = 0;
  uint64_t limbo = 0;
  int64_t created = 0;
};

class View : NoCopy {
 public:
  View() = default;
  ~View();

  /// UNAVAILABLE: there is no such region, or it cannot be used.
  Status open(const Place& place);

  Standing standing() const noexcept;
  std::vector<Neighbour> members() const;

  Status set_limit(uint64_t bytes);
  // For the member in a slot; INVALID_ARGUMENT if there is none.
  Status set_limit_of(uint32_t slot, uint64_t bytes);
  Status set_guarantee_of(uint32_t slot, uint64_t bytes);
  Status set_priority_of(uint32_t slot, int32_t priority);

  /// Recovers what dead members left, and corrects the used bytes to what the members have. `off`: by how
  /// many bytes it was off. `free`: what the device has free; ~0 if unknown.
  Status repair(uint64_t free, int64_t& off);

 private:
  Slot* member(uint32_t slot) const;
  bool sum_up(uint64_t seen, uint64_t& sum) const noexcept;

  File file_;
  Layout* layout_ = nullptr;
};

}  // namespace gpupool::internal::share
