// SPDX-License-Identifier: Apache-2.0
// Where a pool's memory comes from, and goes back to.
#pragma once

#include <cstdint>

#include "core/chunk_sizer.hpp"
#include "core/space.hpp"
#include "pool/caches.hpp"
#include "pool/captures.hpp"
#include "pool/ledger.hpp"
#include "pool/metered_device.hpp"
#include "pool/narrator.hpp"
#include "pool/options.hpp"
#include "pool/quiet_lock.hpp"
#include "pool/sleeper.hpp"
#include "pool/streams.hpp"
#include "pool/surplus.hpp"

namespace gpupool::internal {

/// The rooms of a pool that a source works in. All of them outlive it.
struct Rooms {
  const PoolOptions& options;
  const ChunkSizer& sizer;
  MeteredDevice& device;
  Ledger& ledger;
  Space& space;
  Streams& streams;
  Caches& caches;
  Captures& captures;
  Counters& counters;
  Surplus& surplus;
  const Sleeper& sleeper;
  const Narrator& narrator;
};

/// Guarded by the pool's lock, which a source may give up for calls that take long. Whatever fails changes
/// nothing but what is cached.
class Source {
 public:
  using Lock = QuietLock;

  virtual ~Source() = default;

  /// Makes one hole of at least `bytes` in the stream's heap. A shortage where neither the limit nor the
  /// device has room, and nothing that is idle could make some. Throws std::bad_alloc.
  virtual Status grow(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool capturing) = 0;

  /// Gets memory until `target` bytes are reserved, and makes holes of it in the stream's heap. Throws
  /// std::bad_alloc.
  virtual Status reserve(Lock& lock, StreamState& state, uint64_t target) = 0;

  /// Gives back what no block is in and streams have passed until no more than `target` is reserved. What a
  /// graph may use stays; a child pool's too, but where somebody asks for it. `blocked`: more can go once
  /// streams have passed. Waits for none.
  virtual Status release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) = 0;

  /// After a window of time: gives back what exceeds what streams are entitled to, if that costs no wait.
  virtual void release_surplus(Lock& lock, uint64_t kept) noexcept = 0;

  /// Removes what work that was queued before may have needed, and needs no more. Waits for nothing.
  virtual void settle() noexcept = 0;

  /// A graph has gone: brings the memory of captures back to where the next one begins. Does what it can.
  virtual void lower() noexcept = 0;

  /// The pool's end: gives back all that it can.
  virtual void end(Lock& lock) = 0;

  /// How large a run of another stream's may be that serves a request of `need` bytes.
  virtual uint64_t largest_run(uint64_t need) const noexcept = 0;
};

}  // namespace gpupool::internal
