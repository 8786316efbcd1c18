// SPDX-License-Identifier: Apache-2.0
// What PyTorch's tools look at: snapshots of mapped memory, and its history.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "blocks.hpp"
#include "history.hpp"
#include "mappings.hpp"
#include "private_pools.hpp"
#include "snapshot.hpp"

namespace gpupool_torch {

class Watching {
 public:
  Watching(History& history, Blocks& blocks, const DevicePools& devices, PrivatePools& privates)
      : history_(history), blocks_(blocks), devices_(devices), privates_(privates) {}

  /// The history was switched on: what is mapped now is no event.
  void start(int device_count) {
    for (int device = 0; device < device_count; ++device) {
      const auto segments = [&] { return privates_.segments(static_cast<DeviceIndex>(device)); };
      if (gpupool_t* pool = devices_.find(device)) mappings_.start(device, pool, segments);
    }
  }

  void note_all_mappings(int device_count) {
    for (int device = 0; device < device_count; ++device)
      note_mappings(static_cast<DeviceIndex>(device), true);
  }

  /// Notes the pool's memory that has come or gone since the last time.
  void note_mappings(DeviceIndex device, bool is_sure_of_change) {
    gpupool_t* pool = devices_.find(device);
    if (!history_.is_on() || pool == nullptr) return;
    const auto segments = [&] { return privates_.segments(device); };
    const Mappings::Changes changes = mappings_.update(device, pool, segments, is_sure_of_change);
    const auto tell = [&](TraceEntry::Action action, const std::vector<Mappings::Range>& ranges) {
      for (const auto& [begin, end, stream] : ranges) {
        history_.record(action, {device, begin, end - begin, reinterpret_cast<void*>(stream)},
                        ActingStack::of_thread());
      }
    };
    tell(TraceEntry::SEGMENT_UNMAP, changes.unmapped);
    tell(TraceEntry::SEGMENT_MAP, changes.mapped);
  }

  /// A segment of a private pool has come or goes.
  void note_segment(const PrivatePool& pool, const Segment& segment, bool has_come) {
    history_.record(
        has_come ? TraceEntry::SEGMENT_ALLOC : TraceEntry::SEGMENT_FREE,
        {pool.device, reinterpret_cast<size_t>(segment.ptr), segment.bytes, segment.stream, pool.id},
        ActingStack::of_thread());
  }

  SnapshotInfo snapshot(MempoolId_t id, bool include_traces, int device_count) {
    SnapshotInfo result;
    result.config_metadata = settings();
    if (include_traces) {
      note_all_mappings(device_count);
      result.device_traces = history_.entries();
      result.external_annotations = history_.annotations();
    }
    result.device_traces.resize(static_cast<size_t>(device_count));
    for (int device = 0; device < device_count; ++device) {
      size_t active = 0;
      for (SegmentInfo& each : segments_of(static_cast<DeviceIndex>(device))) {
        if (id != MempoolId_t{0, 0} && id != each.owner_private_pool_id) continue;
        active += each.active_size;
        result.segments.push_back(std::move(each));
      }
      history_.record(TraceEntry::SNAPSHOT, {static_cast<DeviceIndex>(device), 0, active, nullptr, id},
                      nullptr);
    }
    return result;
  }

  std::vector<SegmentInfo> segments_of(DeviceIndex device) {
    std::vector<SegmentInfo> all;
    Snapshot(device, devices_.find(device), privates_.segments(device), blocks_).append_to(all);
    return all;
  }

 private:
  /// The settings in force; they may differ from what was set.
  static c10::cuda::CUDACachingAllocator::AllocatorConfigInfo settings() {
    c10::cuda::CUDACachingAllocator::AllocatorConfigInfo result{};
    result.max_split_size = std::numeric_limits<size_t>::max();
    result.pinned_num_register_threads = CUDAAllocatorConfig::pinned_num_register_threads();
    result.pinned_use_host_register = CUDAAllocatorConfig::pinned_use_cuda_host_register();
    result.expandable_segments = true;
    const std::string given = settings_in_force().text;
    result.last_allocator_settings = "backend:gpupool" + (given.empty() ? "" : "," + given);
    result.roundup_power2_divisions.resize(16);
    return result;
  }

  History& history_;
  Blocks& blocks_;
  const DevicePools& devices_;
  PrivatePools& privates_;
  Mappings mappings_;
};

}  // namespace gpupool_torch
