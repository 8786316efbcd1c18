// SPDX-License-Identifier: Apache-2.0
// What falling asleep and waking work with.
#pragma once

#include <condition_variable>
#include <memory>
#include <string>

#include "gpupool/gpupool.h"

namespace gpupool::internal {

class AsleepChunks;
class Backing;
class Debugger;
class Exports;
class LoneBlocks;
class OomHandler;
class OtherPools;
class Pending;
class Protections;
class SavedBytes;
class SleepHooks;
class Source;
class Stock;
class WayBack;
struct Rooms;

/// The rooms of a pool, and its Sleeper's own. All of them are guarded by the pool's lock.
struct Bedroom {
  const Rooms& rooms;
  Backing& backing;
  const Pending& pending;
  const std::unique_ptr<Source>& source;
  WayBack& way_back;
  OtherPools& others;
  OomHandler& handler;
  Stock& stock;
  Exports& exports;
  const Protections& protections;
  const std::unique_ptr<Debugger>& debugger;  // null without debug modes
  gpupool_t* const& pool;
  SavedBytes& saved;
  AsleepChunks& chunks;
  LoneBlocks& blocks;
  SleepHooks& hooks;
  const std::string& name;  // the pool's
  gpupool_sleep_state_t& state;
  bool& has_woken_blocks;                // while the pool sleeps on
  const uint64_t& slept_at;              // the step in which any of it went to sleep last
  std::condition_variable_any& changed;  // told of whatever a wake may wait for

  bool is_awake() const noexcept { return state == GPUPOOL_SLEEP_STATE_AWAKE; }
};

}  // namespace gpupool::internal
