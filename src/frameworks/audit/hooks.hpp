// SPDX-License-Identifier: Apache-2.0
// What the hooks share.
#pragma once

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/ledger.hpp"
#include "frameworks/audit/pools.hpp"

namespace gpupool::audit {

/// Memory that the driver's pools keep is given up before anything is refused, as the driver itself does.
inline bool take(int number, uint64_t bytes) noexcept {
  Ledger::Device& device = Ledger::get().device(number);
  if (device.account.take(bytes)) return true;
  if (empty_pools(number) && device.account.take(bytes)) return true;
  device.account.count_refusal();
  return false;
}

template <typename Call>
int deallocate(uint64_t address, Call call) noexcept {
  Ledger& ledger = Ledger::get();
  Block block{};
  const bool is_known = ledger.remove(address, block);
  const int result = call();
  if (!is_known) return result;
  if (result == CUDA_SUCCESS) {
    ledger.end(block);
  } else {
    (void)ledger.insert(address, block);  // where it was
  }
  return result;
}

}  // namespace gpupool::audit
