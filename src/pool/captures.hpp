// SPDX-License-Identifier: Apache-2.0
// Memory that graphs use. A graph may run at any time, with the addresses it captured built in: what its
// capture used stays mapped where it is until release() says that the graph is gone, or the pool ends.
//
// In a capture-aware pool each capture has a state of its own (Streams), whose memory nothing else gets.
// Within it chunks may move, since the graph's own order keeps what it reads apart from what it writes later;
// their old mappings stay. A pool without that flag only sees captures when it grows. From the first one on
// it moves nothing and gives nothing back, for it cannot tell what the graph uses. A child pool does so
// always, until it is asked for its memory.
#pragma once

#include <vector>

#include "pool/metered_device.hpp"
#include "pool/options.hpp"
#include "pool/streams.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock.
class Captures {
 public:
  Captures(const PoolOptions& options, MeteredDevice& device, Streams& streams) noexcept
      : options_(options), device_(device), streams_(streams) {}

  /// Whether a stream captures that the pool is about to grow for; remembers the capture. Throws
  /// std::bad_alloc.
  bool note(const StreamState& state);

  /// Whether the pool must stand still: a graph of a capture that it only saw may use any of its memory.
  bool hold_all() const noexcept { return !seen_.empty(); }
  /// Whether the mapping of a heap's addresses must stay though nothing in the pool uses it.
  bool keep_mappings(const StreamState& state) const noexcept {
    return state.capture != 0 || hold_all() || options_.is_child;
  }

  /// The graph is gone. INVALID_ARGUMENT while the capture is under way.
  Status release(uint64_t capture);
  /// The pool ends, and no graph of it runs any more.
  void end() noexcept;

 private:
  Status check_ended(uint64_t capture);

  const PoolOptions& options_;
  MeteredDevice& device_;
  Streams& streams_;
  std::vector<uint64_t> seen_;  // that a pool without the flag has grown for
};

}  // namespace gpupool::internal
