// SPDX-License-Identifier: Apache-2.0
#include "pool/allowance.hpp"

#include "pool/neighbours.hpp"
#include "pool/wake_queue.hpp"

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
  if (company_.neighbours != nullptr) company_.neighbours->member().count_sleepers(more);
}

}  // namespace gpupool::internal
