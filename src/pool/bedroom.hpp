// SPDX-License-Identifier: Apache-2.0
// What falling asleep and waking work with.
#pragma once

#include <condition_variable>
#include <memory>
#include <string>
#include <unordered_set>

#include "core/size.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

class AsleepChunks;
class Backing;
class OomHandler;
class OtherPools;
class Pending;
class SavedBytes;
class Source;
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
  SavedBytes& saved;
  AsleepChunks& chunks;
  const std::unordered_set<Address>& kept;  // blocks that are saved in any case
  const std::string& name;                  // the pool's
  const gpupool_sleep_state_t& state;
  std::condition_variable_any& changed;  // told of whatever a wake may wait for
};

}  // namespace gpupool::internal
