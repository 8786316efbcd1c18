// SPDX-License-Identifier: Apache-2.0
// The one place that decides whether memory may leave an address.
#pragma once

#include <optional>

#include "core/chunk.hpp"
#include "pool/memory/gate.hpp"
#include "pool/rules/departure.hpp"
#include "pool/rules/options.hpp"
#include "pool/stream/captures.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// Memory stays where a graph may have its address, for the graph may run at any time: what a capture has
/// used, all of a pool that has noticed a capture, and all of a child. It stays where a block touches it,
/// live or freed, exported or protected; and until its stream has passed. While the pool sleeps, or is about
/// to, it stays for everybody else: whoever gave the lock up in the middle of releasing finds nothing more
/// that may go. Guarded by the pool's lock.
class Retention {
 public:
  Retention(const PoolOptions& options, const Captures& captures, const Gate& gate) noexcept
      : options_(options), captures_(captures), gate_(gate) {}

  /// Why free memory is to go: the pool's own reasons, a call that asks for it, or a sleep.
  enum class Cause { need, request, sleep };

  /// Whether nothing may go, whatever its state.
  bool keeps_all(Cause cause) const noexcept {
    return captures_.hold_all() || (options_.is_child && cause != Cause::request) || is_asleep_for(cause);
  }
  /// A chunk, from its address to the device. Asks the driver about its stream's events.
  std::optional<Departure> release(const Chunk& chunk, Cause cause) const;
  /// Addresses that a chunk has moved away from, and that a graph of `capture` may use, 0: none.
  std::optional<Departure> unmap(StreamState& state, uint64_t epoch, uint64_t capture, Cause cause) const;

  /// Whether free chunks of one stream may move to another, whose call captures or not.
  bool lets_move(const StreamState& from, const StreamState& to, bool capturing) const noexcept {
    if (options_.is_child || !gate_.is_awake()) return false;
    return !captures_.keep_mappings(from) || (capturing && &from == &to);
  }
  /// Whether free memory of one stream may serve another where it is.
  static bool lets_lend(const StreamState& from) noexcept { return from.capture == 0; }
  /// Whether what moves away leaves a mapping behind that a graph may use.
  bool keeps_mapping(const StreamState& from) const noexcept { return captures_.keep_mappings(from); }

  /// Whether chunks that are at no address may go.
  bool lets_unused_go(Cause cause) const noexcept { return !is_asleep_for(cause); }

  // Reasons that need no question.

  /// Nobody was ever given the address: an attempt is undone, or it is the pool's own memory.
  static Departure of_unused() noexcept { return {}; }
  /// A sleep, in which nothing may use the addresses, and which keeps them.
  static Departure of_sleep() noexcept { return {}; }
  /// The pool has no block any more, and none of its graphs runs; or a block of another process was closed.
  static Departure of_end() noexcept { return {}; }

 private:
  bool is_asleep_for(Cause cause) const noexcept { return cause != Cause::sleep && !gate_.is_awake(); }

  const PoolOptions& options_;
  const Captures& captures_;
  const Gate& gate_;
};

}  // namespace gpupool::internal
