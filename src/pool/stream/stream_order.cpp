// SPDX-License-Identifier: Apache-2.0
#include "pool/stream/stream_order.hpp"

#include <algorithm>
#include <cinttypes>
#include <limits>
#include <utility>

#include "core/policy.hpp"

namespace gpupool::internal {

StreamOrder::~StreamOrder() {
  recycle_front(closed_count_);
}

bool StreamOrder::capturing() {
  if (stream_ == GPUPOOL_STREAM_UNKNOWN || !device_.raw().has_context(context_)) return false;
  bool capturing = false;
  return device_.is_capturing(stream_, capturing) != kSuccess || capturing;
}

void StreamOrder::recycle(Event event) noexcept {
  if (event == waited_for_) {
    was_recycled_ = true;
  } else {
    device_.recycle(event);
  }
}

/// Recycles the events of the oldest closed epochs.
void StreamOrder::recycle_front(size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) recycle(closed_[i].event);
  std::copy(closed_.begin() + count, closed_.begin() + closed_count_, closed_.begin());
  closed_count_ -= count;
}

void StreamOrder::recycle_at(size_t index) noexcept {
  recycle(closed_[index].event);
  std::copy(closed_.begin() + index + 1, closed_.begin() + closed_count_, closed_.begin() + index);
  --closed_count_;
}

void StreamOrder::poll() {
  size_t passed = 0;
  while (passed < closed_count_) {
    bool done = false;
    if (device_.query(closed_[passed].event, done) != kSuccess || !done) break;
    passed_ = std::max(passed_, closed_[passed].epoch);
    passed_ns_ = std::max(passed_ns_, closed_[passed].ns);
    ++passed;
  }
  recycle_front(passed);
}

/// Makes place for one more. What the event that goes was for waits for the next one. The first stays: it
/// says where the stream is.
void StreamOrder::thin_out(uint64_t now) noexcept {
  size_t closest = closed_count_ - 1;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (size_t i = 1; i < closed_count_; ++i) {
    const uint64_t next = i + 1 < closed_count_ ? closed_[i + 1].ns : now;
    const uint64_t between = next - std::min(next, closed_[i - 1].ns);
    if (between < least) {
      least = between;
      closest = i;
    }
  }
  recycle_at(closest);
}

Status StreamOrder::meet() {
  if (has_met_) return kSuccess;
  const Status status = device_.context_of(stream_, context_);
  has_met_ = status == kSuccess;
  return status;
}

Status StreamOrder::close(const StreamUser& user) {
  Event event = 0;
  if (const Status status = device_.record(user, context_, event); status != kSuccess) return status;
  const uint64_t at = now();
  if (closed_count_ == kClosed) thin_out(at);
  closed_[closed_count_++] = {open_++, at, event};
  return kSuccess;
}

bool StreamOrder::leave_event(const StreamUser& user) noexcept {
  if (retired_ || is_covered()) return true;
  const KeepError keep_error;
  const bool left = meet() == kSuccess && !capturing() && close(user) == kSuccess;
  if (left && credit_ != 0) --credit_;
  return left;
}

void StreamOrder::mark(const StreamUser& user) noexcept {
  if (retired_) return;
  const KeepError keep_error;
  if (meet() == kSuccess && !capturing()) (void)close(user);
}

bool StreamOrder::passed(uint64_t epoch) {
  if (epoch <= passed_) return true;
  credit_ = kCredit;
  if (asked_ != round_) {
    asked_ = round_;
    poll();
  }
  return epoch <= passed_;
}

bool StreamOrder::can_follow(StreamOrder& other) {
  poll();
  if (closed_count_ == 0) return false;  // idle, as far as is known
  // The wait is free if this stream is where the other is, and holds it up most if it keeps up with the host.
  const uint64_t host = now();
  const uint64_t theirs = other.closed_count_ != 0 ? other.closed_[0].ns : host;
  return passed_ns_ <= theirs + (host - std::min(host, theirs)) / policy::kAheadParts && !capturing();
}

Status StreamOrder::make_wait(const StreamUser& later, uint64_t epoch) {
  if (epoch <= passed_) return kSuccess;
  const auto end = closed_.begin() + closed_count_;
  const auto first =
      std::find_if(closed_.begin(), end, [&](const EpochEnd& each) { return each.epoch >= epoch; });
  if (first != end) return device_.wait(later, first->event);
  // The epoch is open, or its event is with a thread that waits for it on the host.
  return fail(GPUPOOL_ERROR_UNSUPPORTED, "stream 0x%" PRIxPTR " has left no event to wait for", stream_);
}

bool StreamOrder::begin_wait(EpochEnd& last) {
  poll();
  last = {};
  if (closed_count_ == 0) return true;
  if (waiters_ != 0 && waited_for_ != latest()->event) return false;
  ++waiters_;
  last = *latest();
  waited_for_ = last.event;
  return true;
}

bool StreamOrder::is_covered() const noexcept {
  return stamped_ <= passed_ || (latest() != nullptr && latest()->epoch >= stamped_);
}

void StreamOrder::pass(uint64_t epoch) noexcept {
  if (epoch <= passed_) return;
  passed_ = epoch;
  size_t count = 0;
  while (count < closed_count_ && closed_[count].epoch <= epoch) {
    passed_ns_ = std::max(passed_ns_, closed_[count].ns);
    ++count;
  }
  recycle_front(count);
}

void StreamOrder::end_wait(const EpochEnd& last, bool waited) noexcept {
  if (waited) {
    pass(last.epoch);
    passed_ns_ = std::max(passed_ns_, last.ns);
  }
  if (--waiters_ != 0) return;
  waited_for_ = 0;
  if (std::exchange(was_recycled_, false)) device_.recycle(last.event);
}

Status StreamOrder::retire(const StreamUser& user, bool leaves) {
  if (retired_) return kSuccess;
  bool capturing = false;
  if (const Status status = device_.is_capturing(stream_, capturing); status != kSuccess) return status;
  if (capturing) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a stream that captures a graph cannot be released");
  }
  if (leaves && close(user) == kSuccess) {
    retired_ = true;
  } else {
    retire_untouched();
  }
  return kSuccess;
}

void StreamOrder::retire_untouched() noexcept {
  if (retired_) return;
  ++open_;
  retired_ = true;
}

bool StreamOrder::resume(const StreamUser& user, bool may_wait) {
  poll();
  if (passed_ < stamp()) {
    const bool has_event = latest() != nullptr && latest()->epoch == stamp();
    if (!may_wait || !has_event || capturing() || device_.wait(user, latest()->event) != kSuccess)
      return false;
  }
  retired_ = has_met_ = false;
  return meet() == kSuccess;
}

bool StreamOrder::reuse_for(Stream stream) {
  poll();
  if (passed_ < stamp()) return false;
  stream_ = stream;
  context_ = 0;
  passed_ns_ = 0;
  credit_ = 0;
  retired_ = has_met_ = false;
  return true;
}

}  // namespace gpupool::internal
