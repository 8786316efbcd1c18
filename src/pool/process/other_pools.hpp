// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "pool/request/helpers.hpp"

namespace gpupool::internal {

class Pool;

/// The other pools of the process, and a child's parent.
class OtherPools final : public Helpers {
 public:
  explicit OtherPools(std::weak_ptr<Pool> parent = {}) noexcept : parent_(std::move(parent)) {}

  void empty(PoolLock& lock, PoolState& pool) override;
  bool ask_parent(PoolLock& lock, PoolState& pool, uint64_t bytes) override;
  bool put_to_sleep(PoolLock& lock, PoolState& pool, uint64_t bytes, Status shortage) override;

 private:
  std::weak_ptr<Pool> parent_;
};

}  // namespace gpupool::internal
