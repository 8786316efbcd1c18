// SPDX-License-Identifier: Apache-2.0
// The damage that a pool's debug modes have found, and what they said of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/no_copy.hpp"
#include "pool/debug/inspector.hpp"

namespace gpupool::internal {

class BlockHistory;
struct PoolState;

/// Guarded by the pool's lock, except what says otherwise.
class Findings : NoCopy {
 public:
  Findings(PoolState& pool, BlockHistory& book, Inspector& inspector) noexcept
      : pool_(pool), history_(book), inspector_(inspector) {}

  /// What the device has found since the last call. It has to be told.
  std::vector<Finding> collect() noexcept;
  /// Call it with no lock held, since it asks the loader for names.
  void tell(const std::vector<Finding>& found) noexcept;

  /// Gives how many there were so far, and the last of them in words, a line each, with what could not be
  /// looked at. Throws std::bad_alloc.
  void describe(uint64_t& count, std::string& text) const;

 private:
  static constexpr size_t kToldMax = 16;

  PoolState& pool_;
  BlockHistory& history_;
  Inspector& inspector_;
  uint64_t count_ = 0;
  std::deque<std::string> told_;  // the last ones, in words
};

}  // namespace gpupool::internal
