// SPDX-License-Identifier: Apache-2.0
// What is tried before a malloc fails, in order: a table of stages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/no_copy.hpp"
#include "pool/memory/request.hpp"
#include "pool/rules/pool_lock.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

class Helpers;
class OomHandler;
class Reclaimer;
struct PoolState;

/// For requests that cached memory could not serve, and for which the device or the limit had no room. Under
/// the pool's lock, which it gives up for whatever may take long.
class Shortage : NoCopy {
 public:
  /// Tries a request again. It leaves nothing out.
  using Retry = std::function<Status(Range*& block)>;

  Shortage(PoolState& pool, Reclaimer& reclaimer, Helpers& helpers, OomHandler& handler) noexcept
      : pool_(pool), reclaimer_(reclaimer), helpers_(helpers), handler_(handler) {}

  /// Goes through the stages until the request is served; `status` says what was short. Throws
  /// std::bad_alloc.
  Status relieve(PoolLock& lock, const Request& request, const Retry& retry, Status status, Range*& block);

 private:
  /// What has to be short for a stage: anything, the device, the limit, or what the group leaves of it.
  enum class When { always, device, limit, group_limit };

  /// One request on its way through the stages.
  struct Case {
    PoolLock& lock;
    const Request& request;
    Status status;              // what is short
    uint32_t attempt = 0;       // of the stage, from 1
    bool helped = false;        // the stage has made room, perhaps
    Range* borrowed = nullptr;  // a block in another stream's heap
    std::optional<share::Turn> turn =
        std::nullopt;  // what the group gave is kept for it until it has tried again
  };

  /// Makes room, if `when` applies. Then the request is tried again. If that fails, the stage runs again, up
  /// to `times` in all.
  struct Stage {
    const char* what;  // what it has done, for the log
    When when;
    Status (Shortage::*act)(Case& it);
    uint32_t times;
  };
  static const Stage kStages[];

  static Status unless_refused(Status waited) noexcept;
  bool applies(When when, const Case& it) const;
  uint64_t wanted(const Case& it) const noexcept;
  Status release_waiting(Case& it);
  Status wait_for_all(Case& it);
  Status borrow(Case& it);
  Status empty_others(Case& it);
  Status ask_parent(Case& it);
  Status ask_group(Case& it);
  Status sleep_others(Case& it);
  Status ask_handler(Case& it);

  PoolState& pool_;
  Reclaimer& reclaimer_;
  Helpers& helpers_;
  OomHandler& handler_;
};

}  // namespace gpupool::internal
