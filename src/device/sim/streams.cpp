// SPDX-License-Identifier: Apache-2.0
#include "device/sim/streams.hpp"

#include <algorithm>

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

}  // namespace

Status SimStreams::find(const char* call, Stream number, SimStream*& stream) {
  if (destroyed_.contains(number)) {
    return faults_.refuse(driver_code::kInvalidHandle, "%s on stream %#llx, which was destroyed", call,
                          Long{number});
  }
  if (strict_ && number != 0 && !streams_.contains(number)) {
    return faults_.refuse(driver_code::kInvalidHandle, "%s on stream %#llx, which nobody created", call,
                          Long{number});
  }
  stream = &streams_[number];
  return kSuccess;
}

Status SimStreams::find_event(const char* call, Event number, const EventState*& event) {
  const auto found = events_.find(number);
  if (found == events_.end()) {
    return faults_.refuse(driver_code::kInvalidHandle, "%s of event %llu, which does not exist", call,
                          Long{number});
  }
  event = &found->second;
  return kSuccess;
}

Status SimStreams::refuse_in_capture(const char* call, Stream number) {
  return faults_.refuse(driver_code::kCaptureUnsupported, "%s is illegal: stream %#llx is capturing", call,
                        Long{number});
}

/// The same for a question or command that, on a GPU, ends the capture or the process if another thread
/// captures there.
Status SimStreams::find_own(const char* call, Stream number, SimStream*& stream) {
  if (const Status status = find(call, number, stream); status != kSuccess) return status;
  const bool is_free = stream->capture == 0 || stream->capturer == std::thread::id();
  if (is_free || stream->capturer == std::this_thread::get_id()) return kSuccess;
  return faults_.refuse(driver_code::kCaptureUnsupported,
                        "%s is illegal: another thread captures on stream %#llx", call, Long{number});
}

// ---- streams

Status SimStreams::create(Stream& number) {
  while (streams_.contains(next_stream_) || destroyed_.contains(next_stream_)) ++next_stream_;
  streams_.emplace(next_stream_, SimStream{});
  number = next_stream_++;
  return kSuccess;
}

Status SimStreams::destroy(Stream number) {
  SimStream* stream = nullptr;
  if (const Status status = find("destroy_stream", number, stream); status != kSuccess) return status;
  if (number == 0) return faults_.refuse(driver_code::kInvalidHandle, "destroy_stream of stream 0");
  if (stream->capture != 0) return refuse_in_capture("destroy_stream", number);
  clock_.advance_to(stream->busy_until);
  destroyed_.insert(number);
  streams_.erase(number);
  return kSuccess;
}

Status SimStreams::is_idle(Stream number, bool& idle) {
  SimStream* stream = nullptr;
  if (const Status status = find("synchronize_stream", number, stream); status != kSuccess) return status;
  if (stream->capture != 0) return refuse_in_capture("synchronize_stream", number);
  idle = stream->busy_until <= clock_.now();
  return kSuccess;
}

Status SimStreams::synchronize_stream(Stream number) {
  SimStream* stream = nullptr;
  if (const Status status = find("synchronize_stream", number, stream); status != kSuccess) return status;
  if (stream->capture != 0) return refuse_in_capture("synchronize_stream", number);
  clock_.advance_to(stream->busy_until);
  return kSuccess;
}

// ---- events

Status SimStreams::record(Stream number, Event& event) {
  SimStream* stream = nullptr;
  if (const Status status = find_own("record", number, stream); status != kSuccess) return status;
  const uint64_t time = stream->capture != 0 ? kNever : std::max(clock_.now(), stream->busy_until);
  events_.emplace(next_event_, EventState{time, stream->capture});
  event = next_event_++;
  return kSuccess;
}

Status SimStreams::query(Event number, bool& passed) {
  const EventState* event = nullptr;
  if (const Status status = find_event("query", number, event); status != kSuccess) return status;
  if (is_under_way(event->capture)) {
    return faults_.refuse(driver_code::kCaptureUnsupported, "query of event %llu, recorded in a capture",
                          Long{number});
  }
  passed = event->time <= clock_.now();
  return kSuccess;
}

/// Stays illegal after the capture: the event never passes, so waiting for it would never end.
Status SimStreams::synchronize(Event number) {
  const EventState* event = nullptr;
  if (const Status status = find_event("synchronize", number, event); status != kSuccess) return status;
  if (event->capture != 0) {
    return faults_.refuse(driver_code::kCaptureUnsupported,
                          "synchronize of event %llu, recorded in a capture", Long{number});
  }
  clock_.advance_to(event->time);
  return kSuccess;
}

/// Legal within one capture, where it only adds to the graph, and outside all captures. In CUDA, a wait for a
/// capture's event draws the waiting stream into that capture; no pool should do that, so here it is a fault.
Status SimStreams::wait(Stream number, Event event_number) {
  SimStream* stream = nullptr;
  if (const Status status = find_own("wait", number, stream); status != kSuccess) return status;
  const EventState* event = nullptr;
  if (const Status status = find_event("wait", event_number, event); status != kSuccess) return status;
  if (event->capture != stream->capture) {
    return faults_.refuse(driver_code::kCaptureUnsupported,
                          "wait of stream %#llx for event %llu: one is in a capture, the other is not in it",
                          Long{number}, Long{event_number});
  }
  if (stream->capture == 0) queue(*stream, std::max(stream->busy_until, event->time));
  return kSuccess;
}

Status SimStreams::wait_for_other(Stream number, uint64_t nanoseconds) {
  SimStream* stream = nullptr;
  if (const Status status = find_own("wait", number, stream); status != kSuccess) return status;
  if (stream->capture == 0) queue(*stream, std::max(stream->busy_until, later(clock_.now(), nanoseconds)));
  return kSuccess;
}

Status SimStreams::remaining(Event number, uint64_t& nanoseconds) {
  const EventState* event = nullptr;
  if (const Status status = find_event("wait", number, event); status != kSuccess) return status;
  nanoseconds = event->time - std::min(event->time, clock_.now());
  return kSuccess;
}

void SimStreams::recycle(Event event) noexcept {
  if (event == 0 || events_.erase(event) != 0) return;
  faults_.refuse(driver_code::kInvalidHandle, "recycle of event %llu, which does not exist", Long{event});
}

// ---- capture

Status SimStreams::capture_id(Stream number, uint64_t& id) {
  SimStream* stream = nullptr;
  if (const Status status = find_own("capture_id", number, stream); status != kSuccess) return status;
  id = stream->capture;
  return kSuccess;
}

Status SimStreams::is_capturing(Stream number, bool& capturing) {
  SimStream* stream = nullptr;
  capturing = find("is_capturing", number, stream) == kSuccess && stream->capture != 0;
  return kSuccess;
}

Status SimStreams::begin_capture(Stream number, bool alone) {
  SimStream* stream = nullptr;
  if (const Status status = find("begin_capture", number, stream); status != kSuccess) return status;
  if (number == 0) {
    return faults_.refuse(driver_code::kCaptureUnsupported, "begin_capture on stream 0, which cannot");
  }
  if (stream->capture != 0) {
    return faults_.refuse(driver_code::kIllegalState, "begin_capture: stream %#llx is capturing already",
                          Long{number});
  }
  captures_.emplace(next_capture_, Capture{});
  stream->capture = next_capture_++;
  stream->capturer = alone ? std::this_thread::get_id() : std::thread::id();
  return kSuccess;
}

Status SimStreams::end_capture(Stream number) {
  SimStream* stream = nullptr;
  if (const Status status = find("end_capture", number, stream); status != kSuccess) return status;
  if (stream->capture == 0) {
    return faults_.refuse(driver_code::kIllegalState, "end_capture: stream %#llx is not capturing",
                          Long{number});
  }
  const auto capture = captures_.find(stream->capture);
  capture->second.is_under_way = false;
  // Its number shows that it was.
  if (capture->second.works.empty()) captures_.erase(capture);
  stream->capture = 0;
  return kSuccess;
}

bool SimStreams::is_under_way(uint64_t capture) const {
  const auto found = captures_.find(capture);
  return found != captures_.end() && found->second.is_under_way;
}

void SimStreams::keep(const SimStream& stream, std::span<const SimWork> works) {
  std::vector<SimWork>& kept = captures_.at(stream.capture).works;
  kept.insert(kept.end(), works.begin(), works.end());
}

Status SimStreams::find_graph(uint64_t capture, std::span<const SimWork>& works) const {
  const auto found = captures_.find(capture);
  if (capture < first_capture_ || capture >= next_capture_) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "simulated device: there was no capture %llu on it",
                Long{capture});
  }
  works = {};
  if (found == captures_.end()) return kSuccess;
  if (found->second.is_under_way) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "simulated device: capture %llu is still under way",
                Long{capture});
  }
  works = found->second.works;
  return kSuccess;
}

}  // namespace gpupool::internal
