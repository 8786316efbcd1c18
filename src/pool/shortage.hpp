// SPDX-License-Identifier: Apache-2.0
// What is tried before a malloc fails, in order: a table of stages.
#pragma once

#include <cstdint>

#include <memory>
#include <optional>

#include "pool/quiet_lock.hpp"
#include "pool/streams.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

class Backing;
class Debugger;
class OomHandler;
class OtherPools;
class Provider;
class WayBack;
struct Rooms;

/// Who can help.
struct Means {
  const Rooms& rooms;
  const Backing& backing;
  WayBack& way_back;
  OtherPools& others;
  OomHandler& handler;
  const std::unique_ptr<Debugger>& debugger;
};

/// A request that cached memory could not serve, and for which the device or the limit had no room. Lives for
/// one malloc, under the pool's lock, which it gives up for whatever may take long.
class Shortage {
 public:
  Shortage(Provider& provider, const Means& means, QuietLock& lock, StreamState& state, uint64_t bytes,
           uint64_t alignment) noexcept
      : provider_(provider),
        means_(means),
        lock_(lock),
        state_(state),
        bytes_(bytes),
        alignment_(alignment) {}

  /// Goes through the stages until the request is served; `status` says what was short. Throws
  /// std::bad_alloc.
  Status relieve(Status status, Range*& block);

 private:
  /// What has to be short for a stage: anything, the device, the limit, or what the group leaves of it.
  enum class When { always, device, limit, group_limit };

  /// Makes room, if `when` applies. Then the request is tried again. If that fails, the stage runs again, up
  /// to `times` in all.
  struct Stage {
    const char* what;  // what it has done, for the log
    When when;
    Status (Shortage::*act)(Status shortage, bool& helped);
    uint32_t times;
  };
  static const Stage kStages[];

  bool applies(When when, Status status) const;
  uint64_t wanted() const noexcept;
  Status release_waiting(Status shortage, bool& helped);
  Status wait_for_all(Status shortage, bool& helped);
  Status empty_others(Status shortage, bool& helped);
  Status ask_parent(Status shortage, bool& helped);
  Status ask_group(Status shortage, bool& helped);
  Status sleep_others(Status shortage, bool& helped);
  Status ask_handler(Status shortage, bool& helped);

  Provider& provider_;
  const Means& means_;
  QuietLock& lock_;
  StreamState& state_;
  const uint64_t bytes_;
  const uint64_t alignment_;
  uint32_t attempt_ = 0;             // of the stage, from 1
  std::optional<share::Turn> turn_;  // what neighbours gave is kept for this request until it has tried again
};

}  // namespace gpupool::internal
