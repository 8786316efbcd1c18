// SPDX-License-Identifier: Apache-2.0
// Mallocs and frees that no thread's cache can serve alone: under the pool's lock.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "core/range.hpp"
#include "pool/sighting.hpp"

namespace gpupool::internal {

class Door;
class Exports;
class Pending;
class Protections;
class Provider;
class Sampler;
class Sleeper;
class Watcher;
class WayBack;
struct Rooms;
struct StreamState;
struct ThreadCache;

/// The rooms that a block passes on its way out and back.
struct Stations {
  Door& door;
  Provider& provider;
  Watcher& watcher;
  Sampler& sampler;
  Sleeper& sleeper;
  Protections& protections;
  Pending& pending;
  Exports& exports;
  WayBack& way_back;
};

class SlowPath {
 public:
  SlowPath(const Rooms& rooms, const Stations& stations) noexcept
      : rooms_(rooms),
        door_(stations.door),
        provider_(stations.provider),
        watcher_(stations.watcher),
        sampler_(stations.sampler),
        sleeper_(stations.sleeper),
        protections_(stations.protections),
        pending_(stations.pending),
        exports_(stations.exports),
        way_back_(stations.way_back) {}
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;

  /// From now on threads' caches keep nothing that is freed.
  void keep_no_lanes() noexcept { keeps_lanes_ = false; }

  /// With no lock held. What was seen has to be told. Throws std::bad_alloc.
  Status malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address, Sighting& seen);

  // With the pool's lock.

  Status free(Address address, Stream stream);
  /// Takes note that a stream uses a live block too.
  Status record_stream(Address address, Stream stream);
  /// Makes a block that was just taken from a heap the cache's own, and opens a lane for its stream.
  void assign_block(Range* block, ThreadCache& cache, uint64_t requested, Sighting& seen) noexcept;

 private:
  Range* begin_free(Address address, Status& status);
  Status find_user(const Range& block, Stream stream, bool& is_other, StreamState*& user);

  const Rooms& rooms_;
  Door& door_;
  Provider& provider_;
  Watcher& watcher_;
  Sampler& sampler_;
  Sleeper& sleeper_;
  Protections& protections_;
  Pending& pending_;
  Exports& exports_;
  WayBack& way_back_;
  bool keeps_lanes_ = true;  // threads' caches keep what is freed
};

}  // namespace gpupool::internal
