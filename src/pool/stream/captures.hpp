// SPDX-License-Identifier: Apache-2.0
// Memory that graphs use. A graph has the addresses of its capture built in and may run at any time. So what
// the capture used stays mapped where it is until release() says that the graph is gone, or the pool ends.
//
// In a capture-aware pool each capture has a state of its own (Streams), whose memory nothing else gets.
// Within it chunks may move, since the graph's own order separates what it reads from what it writes later;
// the old mappings stay. A pool without that flag notices captures only when it grows. From the first one on
// it moves and releases nothing, for it cannot tell what the graph uses. A child pool always does so, until
// it is asked for its memory.
#pragma once

#include <vector>

#include "pool/rules/metered_device.hpp"
#include "pool/rules/options.hpp"
#include "pool/stream/streams.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock.
class Captures {
 public:
  Captures(const PoolOptions& options, MeteredDevice& device, Streams& streams) noexcept
      : options_(options), device_(device), streams_(streams) {}

  /// Whether the stream for which the pool is about to grow captures, or may; remembers the capture. Throws
  /// std::bad_alloc.
  bool note(const StreamState& state, const StreamUser& user);

  /// Whether no memory may move or be released: a graph whose capture was only noticed may use any of it.
  bool hold_all() const noexcept { return !seen_.empty(); }
  /// Whether the mappings of a state's heaps must stay though nothing in the pool uses them.
  bool keep_mappings(const StreamState& state) const noexcept {
    return state.capture != 0 || hold_all() || options_.is_child;
  }

  /// Whether the graph of a capture may still run, as far as the pool knows.
  bool may_run(uint64_t capture) const noexcept { return streams_.has_capture(capture); }

  /// Free memory that only the capture it was allocated in may reuse.
  uint64_t kept_bytes() const noexcept;

  /// Takes note that the graph is gone. INVALID_ARGUMENT while the capture is under way.
  Status release(uint64_t capture);
  /// At the pool's end: none of its graphs runs any more.
  void end() noexcept;

 private:
  struct Seen {
    uint64_t capture = 0;
    Stream stream = 0;
    std::thread::id thread;
  };

  const PoolOptions& options_;
  MeteredDevice& device_;
  Streams& streams_;
  std::vector<Seen> seen_;  // captures that a pool without the flag has grown for
};

}  // namespace gpupool::internal
