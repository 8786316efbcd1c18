// SPDX-License-Identifier: Apache-2.0
// What the hooks share.
#pragma once

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/group.hpp"
#include "frameworks/audit/ledger.hpp"
#include "frameworks/audit/pools.hpp"

namespace gpupool::audit {

/// Tries to take `bytes`. Memory that the driver's pools keep is given up before anything is refused, as the
/// driver itself does; then others of the group are asked.
template <typename Try>
bool take_or_refuse(int number, uint64_t bytes, Try take) noexcept {
  if (take()) return true;
  if (empty_pools(number) && take()) return true;
  if (shares)
    for (GroupWait wait(number, bytes); wait.go_on();)
      if (take()) return true;
  Ledger::get().device(number).account.count_refusal();
  return false;
}

inline bool take(int number, uint64_t bytes) noexcept {
  Account& account = Ledger::get().device(number).account;
  return take_or_refuse(number, bytes, [&] { return account.take(bytes); });
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
