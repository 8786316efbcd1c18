// SPDX-License-Identifier: Apache-2.0
// A pool that neighbours of its group may have put to sleep, until its next wake.
#include <thread>

#include "pool/neighbours.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_turn.hpp"

namespace gpupool::internal {

Status Sleeper::allow(const SleepOptions& options) {
  if (const Status status = check_kind(); status != kSuccess) return status;
  if (pool_.company_.neighbours == nullptr) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "the pool shares with nobody: it was created without share, or alone");
  }
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  if (!is_awake()) return kSuccess;
  if (!allowed_) pool_.company_.neighbours->member().count_sleepers(1);
  allowed_ = options;
  return kSuccess;
}

uint64_t Sleeper::sleep_for_neighbours() {
  Result result{};
  Lock lock = pool_.enter();
  // A wake may wait for memory, and meanwhile neighbours still want an answer.
  if (busy_ || !allowed_ || !is_awake()) return 0;
  Turn turn(*this, lock);
  if (turn.begin() != kSuccess) return 0;
  const SleepOptions options = *allowed_;
  return sleep_now(lock, options, result) == kSuccess ? result.released_bytes : 0;
}

void Sleeper::end_allowance() noexcept {
  if (allowed_) pool_.company_.neighbours->member().count_sleepers(-1);
  allowed_.reset();
}

void Sleeper::end_allowance(Lock& lock) {
  changed_.wait(lock, [&] { return !busy_ || owner_ == std::this_thread::get_id(); });
  end_allowance();
}

}  // namespace gpupool::internal
