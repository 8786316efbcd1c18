// SPDX-License-Identifier: Apache-2.0
// How far a stream has come: which of its epochs the GPU has passed.
#pragma once

#include <array>
#include <cstdint>

#include "base/no_copy.hpp"
#include "pool/rules/metered_device.hpp"

namespace gpupool::internal {

/// A stream's life is cut into epochs. What is freed is stamped with the open one. An event closes the epoch:
/// the calls of the stream's user leave one behind, for nobody else may touch the stream. Anybody may ask
/// whether the GPU has passed an epoch, which asks the driver about the events that there are. What no event
/// covers has passed once all work of the device was waited for. One event covers everything freed before it,
/// so a few are enough however far the GPU is behind: if no place is left, the event goes that stood closest
/// to its neighbours. Guarded by the pool's lock. Never allocates.
class StreamOrder : NoCopy {
 public:
  /// The owner of all orders counts `round` up. Each order asks the driver at most once a round.
  StreamOrder(MeteredDevice& driver, const uint64_t& round, Stream stream)
      : device_(driver), round_(round), stream_(stream) {}
  ~StreamOrder();

  Stream stream() const noexcept { return stream_; }
  /// The stream's own, 0: the device's.
  uint64_t context() const noexcept { return context_; }
  /// Whether it is known. If the driver did not tell, no wait says that the stream has passed.
  bool knows_context() const noexcept { return has_met_ || retired_ || stream_ == GPUPOOL_STREAM_UNKNOWN; }
  bool is_retired() const noexcept { return retired_; }

  /// The epoch with which something freed now is stamped.
  uint64_t stamp() noexcept {
    const uint64_t epoch = retired_ ? open_ - 1 : open_;
    stamped_ = epoch;
    return epoch;
  }
  /// The latest epoch that anything was stamped with.
  uint64_t last_stamp() const noexcept { return stamped_; }

  /// Whether the GPU has passed an epoch, as far as events tell. If none covers it, the stream's user will
  /// leave one at the next occasion.
  bool passed(uint64_t epoch);

  /// Whether a wait for what `other` still has to do would hardly hold this stream up: it has work to do
  /// itself, and has not come far ahead of the other. A guess, by the host's time of what they have queued.
  bool can_follow(StreamOrder& other);

  /// Whether the stream is capturing now. If the driver refuses to answer, that counts as yes.
  bool capturing();

  // ---- in calls of the stream's user

  /// Leaves an event behind everything stamped so far, if it has none. False while the stream captures: then
  /// its memory stays until the capture ends.
  bool leave_event(const StreamUser& user) noexcept;
  /// Leaves one even if nothing was stamped, so that can_follow() knows whether the stream is busy.
  void mark(const StreamUser& user) noexcept;
  /// Somebody has asked, not many events ago.
  bool is_asked() const noexcept { return credit_ != 0; }
  /// Somebody has asked since the last event.
  bool was_asked_since() const noexcept { return credit_ == kCredit; }
  /// Others may ask, as far as anybody knows.
  void expect_questions() noexcept { credit_ = kCredit; }

  /// Makes the user's stream wait, on the GPU, until this one has passed `epoch`. UNSUPPORTED if no event
  /// covers it.
  Status make_wait(const StreamUser& later, uint64_t epoch);

  /// Closes the epoch, with an event if it `leaves` one and the driver makes it, and does not touch the
  /// stream again, since the caller may be about to destroy it, or has.
  Status retire(const StreamUser& user, bool leaves);
  /// Uses the number again, for the same stream or a new one. Its work from here on comes after all that was
  /// stamped. False, with nothing changed, if the stream cannot or may not be made to wait for that.
  bool resume(const StreamUser& user, bool may_wait);

  // ---- in any call

  /// Learns which context the stream belongs to, once in the life of a number.
  Status meet();
  /// Closes the epoch and does not touch the stream again, nor now: what no event covers passes once all work
  /// was waited for.
  void retire_untouched() noexcept;
  /// Becomes the order of another stream, if the GPU has passed all that was stamped; else false.
  bool reuse_for(Stream stream);

  // ---- waiting on the host, without the lock

  struct EpochEnd {
    uint64_t epoch = 0;
    uint64_t ns = 0;  // when it was recorded, by the device's clock
    Event event = 0;  // 0: there is none
  };
  /// The last event, if any, for a wait. It stays here too, so that streams may wait for it meanwhile, and is
  /// not recycled before end_wait(). False, without an event, while another thread waits for an earlier one.
  bool begin_wait(EpochEnd& last);
  /// Ends the wait, which has come to its end or failed.
  void end_wait(const EpochEnd& last, bool waited) noexcept;

  /// Whether an event stands behind everything stamped so far, or all of it has passed.
  bool is_covered() const noexcept;
  /// Whether an event tells of an epoch, so that streams can wait for it.
  bool covers(uint64_t epoch) const noexcept {
    return epoch <= passed_ || (latest() != nullptr && latest()->epoch >= epoch);
  }
  bool has_passed_all() const noexcept { return stamped_ <= passed_; }
  /// The epoch that has passed once all work that is queued by now is done: then pass() it.
  uint64_t close_epoch() noexcept { return retired_ ? open_ - 1 : open_++; }
  void pass(uint64_t epoch) noexcept;

 private:
  static constexpr size_t kClosed = 8;
  /// After so many events without a question, its user leaves fewer (Streams::event_step).
  static constexpr uint32_t kCredit = 112;

  void poll();
  Status close(const StreamUser& user);
  void thin_out(uint64_t now) noexcept;
  uint64_t now() const noexcept { return device_.now_ns(); }
  void recycle(Event event) noexcept;
  void recycle_front(size_t count) noexcept;
  void recycle_at(size_t index) noexcept;
  const EpochEnd* latest() const noexcept {
    return closed_count_ != 0 ? &closed_[closed_count_ - 1] : nullptr;
  }

  MeteredDevice& device_;
  const uint64_t& round_;
  Stream stream_;
  uint64_t context_ = 0;
  bool has_met_ = false;
  bool retired_ = false;
  uint32_t credit_ = 0;
  uint64_t open_ = 1;
  uint64_t stamped_ = 0;  // see last_stamp()
  uint64_t passed_ = 0;
  uint64_t passed_ns_ = 0;                  // the GPU has done all that was queued by then
  uint64_t asked_ = 0;                      // the last round in which it asked
  std::array<EpochEnd, kClosed> closed_{};  // by epoch
  size_t closed_count_ = 0;
  Event waited_for_ = 0;       // by threads on the host
  uint32_t waiters_ = 0;       // so many
  bool was_recycled_ = false;  // meanwhile
};

}  // namespace gpupool::internal
