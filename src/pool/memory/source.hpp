// SPDX-License-Identifier: Apache-2.0
// Where a pool's memory comes from, and goes back to.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/request.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock, which a source may give up for long calls. A failure changes nothing but what
/// is cached.
class Source {
 public:
  using Lock = PoolLock;

  virtual ~Source() = default;

  /// Makes one hole for the request in its stream's heap. A shortage if the limit or the device has no
  /// room, and releasing idle memory could not make any. Throws std::bad_alloc.
  virtual Status grow(Lock& lock, const Request& request, bool capturing) = 0;

  /// Where the first of many blocks can begin that are to lie behind each other. UNAVAILABLE where memory
  /// comes with addresses of its own. Throws std::bad_alloc.
  virtual Status find_room(StreamHeap& heap, uint64_t bytes, Address& address) = 0;

  /// Creates memory until `target` bytes are reserved, as holes in the stream's heap. Throws std::bad_alloc.
  virtual Status reserve(Lock& lock, StreamState& state, uint64_t target) = 0;

  /// Releases memory that no block touches and streams have passed, until at most `target` is reserved. What
  /// a graph may use stays; so does a child pool's memory, unless `is_asked_for`. Sets `blocked` if more can
  /// go once streams have passed. Waits for no stream.
  virtual Status release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) = 0;

  /// After a window of time: releases what exceeds `kept`, the streams' entitlement, if that needs no wait.
  virtual void release_surplus(Lock& lock, uint64_t kept) noexcept = 0;

  /// Removes old mappings that no queued work can need any more. Waits for nothing.
  virtual void settle() noexcept = 0;

  /// After a graph has gone: moves memory of captures back to where the next begins. Does what it can.
  virtual void lower() noexcept = 0;

  /// At the pool's end: releases all that it can.
  virtual void end(Lock& lock) = 0;

  /// The largest run of another stream that may be stolen for a request of `need` bytes.
  virtual uint64_t largest_run(uint64_t need) const noexcept = 0;
};

}  // namespace gpupool::internal
