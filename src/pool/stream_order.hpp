// SPDX-License-Identifier: Apache-2.0
// How far a stream has come: which of its epochs the GPU has passed.
#pragma once

#include <array>
#include <cstdint>

#include "pool/metered_device.hpp"

namespace gpupool::internal {

/// A stream's life is cut into epochs. What is freed is stamped with the open one. Only when somebody asks
/// whether the GPU has passed that epoch is an event recorded, and the epoch closed. One event covers
/// everything freed before it, so a few are enough however far the GPU is behind: if no place is left, the
/// event goes that stood closest to its neighbours. Guarded by the pool's lock. Never allocates.
class StreamOrder {
 public:
  /// The owner of all orders counts `round` up. Each order asks the driver at most once a round.
  StreamOrder(MeteredDevice& driver, const uint64_t& round, Stream stream)
      : device_(driver), round_(round), stream_(stream) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  Stream stream() const noexcept { return stream_; }
  bool is_retired() const noexcept { return retired_; }

  /// The epoch with which something freed now is stamped.
  uint64_t stamp() const noexcept { return retired_ ? open_ - 1 : open_; }

  /// Whether the GPU has passed an epoch. If the driver refuses to answer, that counts as no.
  bool passed(uint64_t epoch);

  /// Whether a wait for what `other` still has to do would hardly hold this stream up: it has work to do
  /// itself, and has not come far ahead of the other. A guess, by the host's time of what they have queued.
  bool can_follow(const StreamOrder& other);

  /// Whether the stream is capturing now. If the driver refuses to answer, that counts as yes.
  bool capturing();

  /// Makes `later` wait, on the GPU, until this stream has passed `epoch`.
  Status make_wait(StreamOrder& later, uint64_t epoch);

  /// The event behind everything stamped so far, for a wait on the host without the lock. The event belongs
  /// to the caller until end_wait() takes it back.
  struct EpochEnd {
    uint64_t epoch = 0;
    uint64_t ns = 0;  // when it was recorded, by the device's clock
    Event event = 0;  // 0: nothing to wait for: all has passed, or the stream is capturing
  };
  Status begin_wait(EpochEnd& last);

  /// Takes the event back, waited for or not.
  void end_wait(EpochEnd last, bool waited) noexcept;

  /// Closes the epoch and does not touch the stream again, since the caller may be about to destroy it.
  Status retire();

  /// Uses the number again, for the same stream or a new one. Its work from here on comes after all that was
  /// stamped. False, with nothing changed, if the stream cannot be made to wait for that.
  bool resume();

  /// Becomes the order of another stream, if the GPU has passed all that was stamped; else false.
  bool reuse_for(Stream stream);

 private:
  static constexpr size_t kClosed = 8;

  void poll();
  Status close();
  void thin_out(uint64_t now) noexcept;
  uint64_t now() const noexcept { return device_.raw().now_ns(); }
  void all_passed() noexcept;
  void recycle_front(size_t count) noexcept;
  void recycle_at(size_t index) noexcept;
  const EpochEnd* latest() const noexcept {
    return closed_count_ != 0 ? &closed_[closed_count_ - 1] : nullptr;
  }

  MeteredDevice& device_;
  const uint64_t& round_;
  Stream stream_;
  bool retired_ = false;
  uint64_t open_ = 1;
  uint64_t passed_ = 0;
  uint64_t passed_ns_ = 0;                  // the GPU has done all that was queued by then
  uint64_t asked_ = 0;                      // the last round in which it asked
  std::array<EpochEnd, kClosed> closed_{};  // by epoch
  size_t closed_count_ = 0;
};

}  // namespace gpupool::internal
