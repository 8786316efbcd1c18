// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/allowance.hpp"

#include "pool/rules/group_limit.hpp"
#include "pool/sleep/wake_queue.hpp"

namespace gpupool::internal {

void Allowance::give(const SleepOptions& options) noexcept {
  if (!is_given()) count_sleepers(1);
  options_ = options;
  since_ = WakePlace::next_step();
}

void Allowance::end() noexcept {
  if (is_given()) count_sleepers(-1);
  options_.reset();
  since_ = 0;
}

void Allowance::count_sleepers(int32_t more) const noexcept {
  if (group_.limit != nullptr) group_.limit->member().count_sleepers(more);
}

}  // namespace gpupool::internal
