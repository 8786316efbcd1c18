// SPDX-License-Identifier: Apache-2.0
// Which memory of a device's pool came and went, for the history. The library maps and unmaps chunks inside,
// so this compares what is mapped with what was, whenever the driver has been called since. Segments of
// private pools report themselves and are left out.
#pragma once

#include <gpupool/gpupool.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "device_pools.hpp"
#include "private_pool.hpp"

namespace gpupool_torch {

/// The chunks of a pool, by their addresses.
inline std::vector<gpupool_segment_t> chunks_of(gpupool_t* pool) {
  std::vector<gpupool_segment_t> chunks;
  size_t count = 0;
  size_t blocks = 0;
  do {
    chunks.resize(count);
    if (gpupool_snapshot(pool, chunks.data(), sizeof(gpupool_segment_t), chunks.size(), &count, nullptr,
                         sizeof(gpupool_block_t), 0, &blocks) != GPUPOOL_SUCCESS) {
      count = 0;
    }
  } while (count > chunks.size());
  chunks.resize(count);
  return chunks;
}

class Mappings {
 public:
  struct Range {
    size_t begin;
    size_t end;
    gpupool_stream_t stream;
  };
  struct Changes {
    std::vector<Range> unmapped;
    std::vector<Range> mapped;
  };

  /// Starts here: what is mapped now is no change.
  template <typename Segments>
  void start(int device, gpupool_t* pool, Segments private_segments) {
    const std::lock_guard lock(mutex_);
    devices_[device] = {calls_of(pool), ranges_of(pool, private_segments())};
  }

  /// What has changed since the last update of this device.
  template <typename Segments>
  Changes update(int device, gpupool_t* pool, Segments private_segments, bool is_sure_of_change) {
    const std::lock_guard lock(mutex_);
    Known& known = devices_[device];
    const uint64_t calls = calls_of(pool);
    if (!is_sure_of_change && calls == known.calls) return {};
    std::vector<Range> now = ranges_of(pool, private_segments());
    Changes changes{without(known.ranges, now), without(now, known.ranges)};
    known = {calls, std::move(now)};
    return changes;
  }

 private:
  struct Known {
    uint64_t calls = 0;
    std::vector<Range> ranges;
  };

  /// How many driver calls so far change the mappings.
  static uint64_t calls_of(gpupool_t* pool) {
    const gpupool_driver_stats_t calls = stats_of(pool).driver;
    return calls.map.count + calls.unmap.count + calls.release.count + calls.malloc.count + calls.free.count;
  }

  /// Neighbours that serve one stream are one range.
  static std::vector<Range> ranges_of(gpupool_t* pool, const std::map<uintptr_t, SegmentInfo>& privates) {
    std::vector<Range> all;
    for (const gpupool_segment_t& chunk : chunks_of(pool)) {
      if (!all.empty() && all.back().end == chunk.address && all.back().stream == chunk.stream) {
        all.back().end += chunk.size_bytes;
      } else {
        all.push_back({chunk.address, chunk.address + chunk.size_bytes, chunk.stream});
      }
    }
    std::vector<Range> left_out;
    for (const auto& [address, segment] : privates)
      left_out.push_back({address, address + segment.total_size, 0});
    return without(all, left_out);
  }

  /// The parts of ranges that no other covers. Both are sorted and do not overlap.
  static std::vector<Range> without(const std::vector<Range>& ranges, const std::vector<Range>& others) {
    std::vector<Range> left;
    auto other = others.begin();
    for (Range range : ranges) {
      while (other != others.end() && other->end <= range.begin) ++other;
      for (auto cover = other; cover != others.end() && cover->begin < range.end; ++cover) {
        if (range.begin < cover->begin) left.push_back({range.begin, cover->begin, range.stream});
        range.begin = std::max(range.begin, cover->end);
      }
      if (range.begin < range.end) left.push_back(range);
    }
    return left;
  }

  std::mutex mutex_;
  std::map<int, Known> devices_;
};

}  // namespace gpupool_torch
