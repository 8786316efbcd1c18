// SPDX-License-Identifier: Apache-2.0
// How much memory a pool keeps: trimmed, reserved ahead of need, and limited.
#pragma once

#include <cstdint>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/budget.hpp"
#include "pool/rules/stream_user.hpp"

namespace gpupool::internal {

class Source;
class Reclaimer;
struct PoolState;

/// Call it with no lock held. What the functions of gpupool.h with the same names do.
class Capacity : NoCopy {
 public:
  Capacity(PoolState& pool, Source& source, Reclaimer& reclaimer) noexcept
      : pool_(pool), source_(source), reclaimer_(reclaimer) {}

  Status trim(uint64_t target, uint64_t& released, const char* why);
  /// Releases cached chunks until they come to `bytes`, or none is left.
  Status trim_by(uint64_t bytes, uint64_t& released, const char* why);
  /// Releases at most so much of what no stream can still be using. Waits for nothing, and leaves a child's
  /// memory where it is.
  uint64_t release_unasked(uint64_t most, const char* why);
  Status reserve(uint64_t target, StreamUser user);
  Status set_limit(uint64_t asked, const Ceiling& ceiling);

 private:
  PoolState& pool_;
  Source& source_;
  Reclaimer& reclaimer_;
};

}  // namespace gpupool::internal
