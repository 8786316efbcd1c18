// SPDX-License-Identifier: Apache-2.0
#include "device/sim/sleepers.hpp"

#include <algorithm>
#include <new>

#include "device/sim/by_address.hpp"
#include "device/sim/clock.hpp"

namespace gpupool::internal {

void SimSleepers::name(Address address, uint64_t size, const char* pool) noexcept {
  const auto first = sleepers_.lower_bound(address);
  sleepers_.erase(first, sleepers_.lower_bound(address + size));
  if (pool == nullptr) return;
  try {
    sleepers_.insert_or_assign(address, Sleeper{size, pool});
  } catch (const std::bad_alloc&) {
    // Messages will say less then.
  }
}

std::string SimSleepers::name_of(Address address, uint64_t size) const {
  const auto last = entry_at(sleepers_, address + std::min(size - 1, kNever - address));
  if (last == sleepers_.end() || last->first + last->second.size <= address) return {};
  return ", which is asleep in pool '" + last->second.pool + "'";
}

}  // namespace gpupool::internal
