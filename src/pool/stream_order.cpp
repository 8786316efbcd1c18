// SPDX-License-Identifier: Apache-2.0
#include "pool/stream_order.hpp"

#include <algorithm>

namespace gpupool {

StreamOrder::~StreamOrder() {
  for (const Mark& closed : closed_) driver_.recycle(closed.event);
}

bool StreamOrder::capturing() {
  uint64_t id = 0;
  return driver_.capture_id(stream_, id) != kSuccess || id != 0;
}

void StreamOrder::poll() {
  while (!closed_.empty()) {
    bool done = false;
    if (driver_.query(closed_.front().event, done) != kSuccess || !done) return;
    // An event that came back from a failed wait may be for less than what has passed since.
    passed_ = std::max(passed_, closed_.front().epoch);
    driver_.recycle(closed_.front().event);
    closed_.pop_front();
  }
}

void StreamOrder::all_passed() noexcept {
  for (const Mark& closed : closed_) driver_.recycle(closed.event);
  closed_.clear();
  passed_ = open_++;
}

Status StreamOrder::close() {
  closed_.push_back({open_, 0});
  const Status status = driver_.record(stream_, closed_.back().event);
  if (status != kSuccess) {
    closed_.pop_back();
    return status;
  }
  ++open_;
  return kSuccess;
}

bool StreamOrder::passed(uint64_t epoch, uint64_t tick) {
  if (epoch <= passed_) return true;
  if (tick_ != tick) {
    tick_ = tick;
    poll();
    if (epoch <= passed_) return true;
    if (epoch == open_ && !released_ && !capturing()) {
      // An idle stream needs no event; a busy one gets one, whose turn comes at a later tick.
      bool idle = false;
      if (driver_.query_stream(stream_, idle) == kSuccess && idle) {
        all_passed();
        return true;
      }
      (void)close();
    }
  }
  return false;
}

Status StreamOrder::hold(StreamOrder& later, uint64_t epoch) {
  if (epoch <= passed_) return kSuccess;
  if (closed_.empty() || closed_.back().epoch < epoch) {
    // The epoch is open, or its event is with a thread that waits for it on the host.
    if (released_) return fail(GPUPOOL_ERROR_UNSUPPORTED, "a thread has the released stream's event");
    if (capturing()) {
      return fail(GPUPOOL_ERROR_UNSUPPORTED, "a stream that captures a graph cannot be waited for");
    }
    if (const Status status = close(); status != kSuccess) return status;
  }
  for (const Mark& closed : closed_) {
    if (closed.epoch >= epoch) return driver_.wait(later.stream_, closed.event);
  }
  return kSuccess;
}

Status StreamOrder::mark(Mark& mark) {
  mark = {};
  poll();
  if (!released_) {
    bool idle = false;
    if (capturing()) return kSuccess;
    if (driver_.query_stream(stream_, idle) == kSuccess && idle) {
      all_passed();
      return kSuccess;
    }
    if (const Status status = close(); status != kSuccess) return status;
  }
  if (closed_.empty()) return kSuccess;
  mark = closed_.back();
  closed_.pop_back();
  return kSuccess;
}

void StreamOrder::settle(const Mark& mark, bool waited) {
  if (mark.event == 0) return;
  if (!waited) {
    auto at = closed_.begin();
    while (at != closed_.end() && at->epoch < mark.epoch) ++at;
    closed_.insert(at, mark);
    return;
  }
  driver_.recycle(mark.event);
  while (!closed_.empty() && closed_.front().epoch <= mark.epoch) {
    driver_.recycle(closed_.front().event);
    closed_.pop_front();
  }
  if (passed_ < mark.epoch) passed_ = mark.epoch;
}

Status StreamOrder::release() {
  if (released_) return kSuccess;
  uint64_t capture = 0;
  if (const Status status = driver_.capture_id(stream_, capture); status != kSuccess) return status;
  if (capture != 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a stream that captures a graph cannot be released");
  }
  if (const Status status = close(); status != kSuccess) return status;
  released_ = true;
  return kSuccess;
}

void StreamOrder::end() noexcept {
  all_passed();
  released_ = true;
}

bool StreamOrder::revive() {
  poll();
  if (passed_ < stamp()) {
    const bool has_event = !closed_.empty() && closed_.back().epoch == stamp();
    if (!has_event || capturing() || driver_.wait(stream_, closed_.back().event) != kSuccess) return false;
  }
  released_ = false;
  return true;
}

}  // namespace gpupool
