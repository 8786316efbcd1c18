// SPDX-License-Identifier: Apache-2.0
// How much memory a pool keeps: trimmed, reserved ahead of need, and limited.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "core/size.hpp"

namespace gpupool::internal {

class Debugger;
class Door;
class Pending;
class Sleeper;
class Source;
class Statistics;
class WayBack;
struct Rooms;

/// Call it with no lock held. What the functions of gpupool.h with the same names do.
class Stock {
 public:
  Stock(const Rooms& rooms, Door& door, Source& source, WayBack& way_back, const Pending& pending,
        Sleeper& sleeper, const Statistics& statistics, const std::unique_ptr<Debugger>& debugger) noexcept
      : rooms_(rooms),
        door_(door),
        source_(source),
        way_back_(way_back),
        pending_(pending),
        sleeper_(sleeper),
        statistics_(statistics),
        debugger_(debugger) {}
  Stock(const Stock&) = delete;
  Stock& operator=(const Stock&) = delete;

  Status trim(uint64_t target, uint64_t& released, const char* why);
  /// Releases cached chunks until they come to `bytes`, or none is left.
  Status trim_by(uint64_t bytes, uint64_t& released, const char* why);
  Status reserve(uint64_t target, Stream stream);
  Status set_limit(uint64_t limit);

 private:
  const Rooms& rooms_;
  Door& door_;
  Source& source_;
  WayBack& way_back_;
  const Pending& pending_;
  Sleeper& sleeper_;
  const Statistics& statistics_;
  const std::unique_ptr<Debugger>& debugger_;
};

}  // namespace gpupool::internal
