// SPDX-License-Identifier: Apache-2.0
#include "pool/stream_order.hpp"

#include <algorithm>
#include <limits>

namespace gpupool::internal {

StreamOrder::~StreamOrder() {
  recycle_front(closed_count_);
}

bool StreamOrder::capturing() {
  uint64_t id = 0;
  return device_.capture_id(stream_, id) != kSuccess || id != 0;
}

/// Recycles the events of the oldest closed epochs.
void StreamOrder::recycle_front(size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) device_.recycle(closed_[i].event);
  std::copy(closed_.begin() + count, closed_.begin() + closed_count_, closed_.begin());
  closed_count_ -= count;
}

void StreamOrder::recycle_at(size_t index) noexcept {
  device_.recycle(closed_[index].event);
  std::copy(closed_.begin() + index + 1, closed_.begin() + closed_count_, closed_.begin() + index);
  --closed_count_;
}

void StreamOrder::poll() {
  size_t passed = 0;
  while (passed < closed_count_) {
    bool done = false;
    if (device_.query(closed_[passed].event, done) != kSuccess || !done) break;
    // An event that came back from a failed wait may be for less than what has passed since.
    passed_ = std::max(passed_, closed_[passed].epoch);
    passed_ns_ = std::max(passed_ns_, closed_[passed].ns);
    ++passed;
  }
  recycle_front(passed);
}

void StreamOrder::all_passed() noexcept {
  recycle_front(closed_count_);
  passed_ = open_++;
  passed_ns_ = now();
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

Status StreamOrder::close() {
  Event event = 0;
  if (const Status status = device_.record(stream_, event); status != kSuccess) return status;
  const uint64_t at = now();
  if (closed_count_ == kClosed) thin_out(at);
  closed_[closed_count_++] = {open_++, at, event};
  return kSuccess;
}

bool StreamOrder::passed(uint64_t epoch) {
  if (epoch <= passed_) return true;
  if (asked_ != round_) {
    asked_ = round_;
    poll();
    if (epoch <= passed_) return true;
    if (epoch == open_ && !retired_ && !capturing()) {
      // An idle stream needs no event. A busy one gets one, which a later round asks about.
      bool idle = false;
      if (device_.query_stream(stream_, idle) != kSuccess) return false;
      if (idle) {
        all_passed();
        return true;
      }
      (void)close();
    }
  }
  return false;
}

bool StreamOrder::can_follow(const StreamOrder& other) {
  if (passed(stamp()) || closed_count_ == 0) return false;  // idle, as far as is known
  // The wait is free if this stream is where the other is, and holds it up most if it keeps up with the host.
  const uint64_t host = now();
  const uint64_t theirs = other.closed_count_ != 0 ? other.closed_[0].ns : host;
  return passed_ns_ <= theirs + (host - std::min(host, theirs)) / 2 && !capturing();
}

Status StreamOrder::make_wait(StreamOrder& later, uint64_t epoch) {
  if (epoch <= passed_) return kSuccess;
  if (latest() == nullptr || latest()->epoch < epoch) {
    // The epoch is open, or its event is with a thread that waits for it on the host.
    if (retired_) return fail(GPUPOOL_ERROR_UNSUPPORTED, "a thread has the released stream's event");
    if (capturing()) {
      return fail(GPUPOOL_ERROR_UNSUPPORTED, "a stream that captures a graph cannot be waited for");
    }
    if (const Status status = close(); status != kSuccess) return status;
  }
  const auto end = closed_.begin() + closed_count_;
  const auto first =
      std::find_if(closed_.begin(), end, [&](const EpochEnd& each) { return each.epoch >= epoch; });
  return first != end ? device_.wait(later.stream_, first->event) : kSuccess;
}

Status StreamOrder::begin_wait(EpochEnd& last) {
  last = {};
  poll();
  if (!retired_) {
    bool idle = false;
    if (capturing()) return kSuccess;
    if (device_.query_stream(stream_, idle) == kSuccess && idle) {
      all_passed();
      return kSuccess;
    }
    if (const Status status = close(); status != kSuccess) return status;
  }
  if (closed_count_ != 0) last = closed_[--closed_count_];
  return kSuccess;
}

void StreamOrder::end_wait(EpochEnd last, bool waited) noexcept {
  if (last.event == 0) return;
  if (waited) {
    passed_ = std::max(passed_, last.epoch);
    passed_ns_ = std::max(passed_ns_, last.ns);
    device_.recycle(last.event);
    size_t passed = 0;
    while (passed < closed_count_ && closed_[passed].epoch <= last.epoch) ++passed;
    recycle_front(passed);
    return;
  }
  const auto end = closed_.begin() + closed_count_;
  const auto later =
      std::find_if(closed_.begin(), end, [&](const EpochEnd& each) { return each.epoch > last.epoch; });
  if (closed_count_ == kClosed) {
    // A later event covers this one's work. If there is none, this one covers what the last event is for.
    if (later == end) std::swap(closed_[kClosed - 1], last);
    device_.recycle(last.event);
    return;
  }
  std::move_backward(later, end, end + 1);
  *later = last;
  ++closed_count_;
}

Status StreamOrder::retire() {
  if (retired_) return kSuccess;
  uint64_t capture = 0;
  if (const Status status = device_.capture_id(stream_, capture); status != kSuccess) return status;
  if (capture != 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a stream that captures a graph cannot be released");
  }
  if (const Status status = close(); status != kSuccess) return status;
  retired_ = true;
  return kSuccess;
}

bool StreamOrder::resume() {
  poll();
  if (passed_ < stamp()) {
    const bool has_event = latest() != nullptr && latest()->epoch == stamp();
    if (!has_event || capturing() || device_.wait(stream_, latest()->event) != kSuccess) return false;
  }
  retired_ = false;
  return true;
}

bool StreamOrder::reuse_for(Stream stream) {
  poll();
  if (passed_ < stamp()) return false;
  stream_ = stream;
  passed_ns_ = 0;
  retired_ = false;
  return true;
}

}  // namespace gpupool::internal
