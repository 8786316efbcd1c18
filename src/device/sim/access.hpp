// SPDX-License-Identifier: Apache-2.0
// Which stream touched which physical bytes last, to detect races between streams.
//
// Virtual times include all waits: work that waits for other work starts when that has ended, or later. So
// two accesses race exactly if they come from two streams, at least one writes, and they overlap in time. The
// names of physical bytes are never reused, so released memory needs no special care. While no work touches
// memory, this stores nothing and costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"

namespace gpupool::internal {

class SimAccesses {
 public:
  struct Use {
    Stream stream = 0;
    uint64_t end = 0;  // when it finishes; 0: there is none
  };

  /// An access to [offset, offset + size) by another stream that has not ended at `start`, if there is one.
  std::optional<Use> conflict(uint64_t offset, uint64_t size, Stream stream, uint64_t start,
                              bool writes) const;

  struct Access {
    uint64_t offset = 0;
    uint64_t size = 0;
    Use use;
    bool writes = false;
  };

  struct Record {
    uint64_t end_offset = 0;
    Use write;
    std::vector<Use> reads;  // at most one per stream
  };
  using Records = std::map<uint64_t, Record>;  // disjoint, by first offset

  // Accesses are recorded in two steps, so that work is not done if the host has no memory for its records.

  /// The records of these bytes with the accesses added, in order. `now` bounds what still matters: later
  /// work starts at `now` or after it.
  Records with(std::span<const Access> accesses, uint64_t now);
  /// Replaces the old records with the result of with(accesses). Allocates nothing.
  void replace(std::span<const Access> accesses, Records records) noexcept;

 private:
  Records::const_iterator first_overlap(uint64_t offset) const;
  void drop_finished(uint64_t now);

  Records records_;
  size_t sweep_at_ = 1024;
};

}  // namespace gpupool::internal
