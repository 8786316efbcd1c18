// SPDX-License-Identifier: Apache-2.0
// Where a stream stands: which of its epochs the GPU has passed.
#pragma once

#include <array>
#include <cstdint>

#include "pool/metered_device.hpp"

namespace gpupool::internal {

/// A stream's life is cut into epochs. What is freed is stamped with the open one; an event is recorded, and
/// the epoch closed, only when somebody asks whether the GPU has passed it. One event covers everything
/// freed before it, so that a few are enough however far the GPU is behind: where there is no place for
/// another, it takes the last one's. Guarded by the pool's lock. Never allocates.
class StreamOrder {
 public:
  /// `round` is counted up by the owner of all orders; each asks the driver at most once a round.
  StreamOrder(MeteredDevice& driver, const uint64_t& round, Stream stream)
      : device_(driver), round_(round), stream_(stream) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  Stream stream() const noexcept { return stream_; }
  bool is_retired() const noexcept { return retired_; }

  /// What something freed now is stamped with.
  uint64_t stamp() const noexcept { return retired_ ? open_ - 1 : open_; }

  /// Whether the GPU has passed an epoch. What the driver refuses to answer counts as no.
  bool passed(uint64_t epoch);

  /// Whether the stream is capturing now, as far as the driver tells.
  bool capturing();

  /// Makes `later` wait, on the GPU, until this stream has passed `epoch`.
  Status make_wait(StreamOrder& later, uint64_t epoch);

  /// The event behind everything stamped so far, for a wait on the host without the lock. The event belongs
  /// to the caller until it comes back through end_wait().
  struct EpochEnd {
    uint64_t epoch = 0;
    Event event = 0;  // 0: nothing to wait for: all has passed, or the stream is capturing
  };
  Status begin_wait(EpochEnd& last);

  /// Takes the event back, waited for or not.
  void end_wait(EpochEnd last, bool waited) noexcept;

  /// The caller may be about to destroy the stream: closes the epoch and touches the stream no more.
  Status retire();

  /// Takes the number up again, for the same stream or a new one, which from here on comes after all that was
  /// stamped. False, and nothing has changed, where it cannot be made to wait for that.
  bool resume();

  /// Goes on as the order of another stream, if the GPU has passed all that was stamped; else false.
  bool reuse_for(Stream stream);

 private:
  static constexpr size_t kClosed = 8;

  void poll();
  Status close();
  void all_passed() noexcept;
  void recycle_front(size_t count) noexcept;
  const EpochEnd* latest() const noexcept {
    return closed_count_ != 0 ? &closed_[closed_count_ - 1] : nullptr;
  }

  MeteredDevice& device_;
  const uint64_t& round_;
  Stream stream_;
  bool retired_ = false;
  uint64_t open_ = 1;
  uint64_t passed_ = 0;
  uint64_t asked_ = 0;                      // in this round
  std::array<EpochEnd, kClosed> closed_{};  // by epoch
  size_t closed_count_ = 0;
};

}  // namespace gpupool::internal
