// SPDX-License-Identifier: Apache-2.0
// Where a stream stands: which of its epochs the GPU has passed.
#pragma once

#include <cstdint>
#include <deque>

#include "pool/driver.hpp"

namespace gpupool {

/// A stream's life is cut into epochs. What is freed is stamped with the open one; an event is recorded, and
/// the epoch closed, only when somebody asks whether the GPU has passed it. One event covers everything
/// freed before it. Guarded by the pool's lock.
class StreamOrder {
 public:
  StreamOrder(Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  Stream stream() const noexcept { return stream_; }
  bool released() const noexcept { return released_; }

  /// What something freed now is stamped with.
  uint64_t stamp() const noexcept { return released_ ? open_ - 1 : open_; }

  /// Whether the GPU has passed an epoch. Asks the driver at most once a `tick`, a few tenths of a us; what
  /// the driver refuses to answer counts as no.
  bool passed(uint64_t epoch, uint64_t tick);

  /// Whether the stream is capturing now, as far as the driver tells.
  bool capturing();

  /// Makes `later` wait, on the GPU, until this stream has passed `epoch`.
  Status hold(StreamOrder& later, uint64_t epoch);

  /// The event behind everything stamped so far, for a wait on the host without the lock. The event belongs
  /// to the caller until it comes back through settle().
  struct Mark {
    uint64_t epoch = 0;
    Event event = 0;  // 0: nothing to wait for: all has passed, or the stream is capturing
  };
  Status mark(Mark& mark);

  /// Gives a mark back, waited for or not.
  void settle(const Mark& mark, bool waited);

  /// The caller may be about to destroy the stream: closes the epoch and touches the stream no more.
  Status release();

  /// All is done that the stream ever did, and it is touched no more: a capture whose graph is gone.
  void end() noexcept;

  /// Takes the number up again, for the same stream or a new one, which from here on comes after all that was
  /// stamped. False, and nothing has changed, where it cannot be made to wait for that.
  bool revive();

 private:
  void poll();
  Status close();
  void all_passed() noexcept;

  Driver& driver_;
  Stream stream_;
  bool released_ = false;
  uint64_t open_ = 1;
  uint64_t passed_ = 0;
  uint64_t tick_ = 0;
  std::deque<Mark> closed_;  // by epoch
};

}  // namespace gpupool
