// SPDX-License-Identifier: Apache-2.0
// Says where a pool's memory goes: in the log, at level debug, and in a recording.
#pragma once

#include <cstdint>

#include "pool/rules/ledger.hpp"
#include "pool/stream/streams.hpp"
#include "watch/recorder.hpp"

namespace gpupool::internal {

/// Called under the pool's lock. A log line waits until the lock is given up (PoolLock), and costs one check
/// of the level while nobody listens. An event costs one check while nothing is recorded.
class PoolLog {
 public:
  /// Both outlive it. The pool's number may still change.
  PoolLog(const uint64_t& pool, const Ledger& ledger) noexcept : pool_(pool), ledger_(ledger) {}

  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...) const noexcept;

  /// The pool grew since `before`, for a block of `bytes`; 0: for gpupool_reserve.
  void grew(const Ledger::Totals& before, const StreamState& state, uint64_t bytes) const noexcept;
  /// Says nothing if nothing was released since `before`.
  void released(const Ledger::Totals& before, const char* why) const noexcept;
  void stole(uint64_t bytes, const StreamState& from, const StreamState& to, const char* how) const noexcept;
  void waited(uint64_t nanoseconds, size_t streams, const char* why) const noexcept;
  void is_short(uint64_t bytes, const StreamState& state, const char* what) const noexcept;

  // For a recording only.

  void mapped(const StreamHeap& heap, Address address, uint64_t bytes) const noexcept {
    record(EventKind::map, heap, address, bytes);
  }
  void unmapped(const StreamHeap& heap, Address address, uint64_t bytes) const noexcept {
    record(EventKind::unmap, heap, address, bytes);
  }

 private:
  void record(EventKind kind, const StreamHeap& heap, Address address, uint64_t bytes) const noexcept {
    if (!Recorder::is_on()) return;
    Recorder::write(
        {kind, Recorder::generation(), Recorder::now(), pool_, heap.state().order.stream(), address, bytes});
  }

  const uint64_t& pool_;
  const Ledger& ledger_;
};

}  // namespace gpupool::internal
