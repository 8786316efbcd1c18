// SPDX-License-Identifier: Apache-2.0
// Frees that no thread's cache can take alone, and other streams that use a block.
#pragma once

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/range.hpp"
#include "pool/rules/stream_user.hpp"

namespace gpupool::internal {

class Protections;
class Watcher;
class Reclaimer;
struct PoolState;
struct StreamState;

/// Guarded by the pool's lock.
class SlowFree : NoCopy {
 public:
  SlowFree(PoolState& pool, Reclaimer& reclaimer, Protections& protections, Watcher& watcher) noexcept
      : pool_(pool), reclaimer_(reclaimer), protections_(protections), watcher_(watcher) {}

  /// The user may be GPUPOOL_STREAM_UNKNOWN's.
  Status free(Address address, StreamUser user);
  /// Takes note that a stream uses a live block too.
  Status record_stream(Address address, const StreamUser& user);

 private:
  Range* begin_free(Address address, Status& status);
  bool is_asleep(const Range& block) const noexcept;
  Status find_user(const Range& block, StreamUser& user, bool& is_other, StreamState*& state);

  PoolState& pool_;
  Reclaimer& reclaimer_;
  Protections& protections_;
  Watcher& watcher_;
};

}  // namespace gpupool::internal
