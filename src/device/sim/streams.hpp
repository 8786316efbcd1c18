// SPDX-License-Identifier: Apache-2.0
// Streams, events and capture in virtual time: a stream is the moment at which its queued work ends.
//
// Any number is a stream from its first use on, unless streams are strict: then create() makes them. A
// destroyed stream is not a stream any more. Stream 0 is like any other: unlike CUDA's legacy default stream,
// it does not synchronise with the others. Created streams and captures have numbers that no other device
// uses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/device.hpp"
#include "device/sim/clock.hpp"
#include "device/sim/devices.hpp"
#include "device/sim/work.hpp"

namespace gpupool::internal {

struct SimStream {
  uint64_t busy_until = 0;
  uint64_t capture = 0;      // names the capture under way; 0: none
  std::thread::id capturer;  // if no other thread may touch it
};

/// Not thread-safe: the device's lock is held. A call that throws std::bad_alloc has changed nothing.
class SimStreams {
 public:
  SimStreams(int32_t ordinal, bool strict, SimClock& clock, SimFaults& faults)
      : strict_(strict),
        clock_(clock),
        faults_(faults),
        ordinal_(ordinal),
        next_stream_(own_numbers(ordinal) + kFirstStream),
        next_event_(own_numbers(ordinal) + 1),
        first_capture_(own_numbers(ordinal) + 1),
        next_capture_(first_capture_) {}

  /// The stream with this number; refused if it was destroyed or, with strict streams, not created. `call` is
  /// for the message.
  Status find(const char* call, Stream number, SimStream*& stream);
  /// Queues work that ends at `end`.
  void queue(SimStream& stream, uint64_t end) noexcept {
    stream.busy_until = end;
    latest_end_ = std::max(latest_end_, end);
  }
  /// Waits for everything queued anywhere.
  void synchronize_all() noexcept { clock_.advance_to(latest_end_); }
  bool are_all_idle() const noexcept { return latest_end_ <= clock_.now(); }

  /// The device that gave an event, or a stream that create() made, this number; else this device's.
  size_t device_of(uint64_t number) const noexcept {
    const auto ordinal = static_cast<size_t>(number >> 32);
    return ordinal < kSimDeviceCount && number != 0 ? ordinal : static_cast<size_t>(ordinal_);
  }
  bool has_created(Stream number) const noexcept {
    return number >= own_numbers(ordinal_) + kFirstStream && number < next_stream_;
  }

  Status create(Stream& number);
  Status destroy(Stream number);
  Status synchronize_stream(Stream number);
  /// Whether a stream that does not capture has done all.
  Status is_idle(Stream number, bool& idle);

  Status record(Stream number, Event& event);
  Status query(Event event, bool& passed);
  Status wait(Stream number, Event event);
  /// The same for an event of another device, which passes in so many nanoseconds.
  Status wait_for_other(Stream number, uint64_t nanoseconds);
  /// How long an event takes to pass from now on; for another device's stream.
  Status remaining(Event event, uint64_t& nanoseconds);
  Status synchronize(Event event);
  void recycle(Event event) noexcept;

  Status capture_id(Stream number, uint64_t& id);
  Status is_capturing(Stream number, bool& capturing);
  Status begin_capture(Stream number, bool alone);
  /// The recorded work stays, for launches.
  Status end_capture(Stream number);
  /// Adds work to the capture of a capturing stream.
  void keep(const SimStream& stream, std::span<const SimWork> works);
  /// What a capture recorded. INVALID_ARGUMENT: there is no such capture, or it is in progress.
  Status find_graph(uint64_t capture, std::span<const SimWork>& works) const;

 private:
  struct EventState {
    uint64_t time = 0;     // kNever in a capture
    uint64_t capture = 0;  // that it was recorded in; 0: none
  };
  struct Capture {
    bool is_under_way = true;
    std::vector<SimWork> works;
  };

  static constexpr Stream kFirstStream = 0x1000;

  /// Where a device's own numbers begin.
  static constexpr uint64_t own_numbers(int32_t ordinal) noexcept {
    return static_cast<uint64_t>(ordinal) << 32;
  }
  bool is_under_way(uint64_t capture) const;
  Status find_event(const char* call, Event number, const EventState*& event);
  Status refuse_in_capture(const char* call, Stream number);
  Status find_own(const char* call, Stream number, SimStream*& stream);

  bool strict_;
  SimClock& clock_;
  SimFaults& faults_;
  uint64_t latest_end_ = 0;
  const int32_t ordinal_;
  Stream next_stream_;
  Event next_event_;
  const uint64_t first_capture_;
  uint64_t next_capture_;
  std::unordered_map<Stream, SimStream> streams_;
  std::unordered_set<Stream> destroyed_;
  std::unordered_map<Event, EventState> events_;
  std::unordered_map<uint64_t, Capture> captures_;  // under way, or with work for a graph
};

}  // namespace gpupool::internal
