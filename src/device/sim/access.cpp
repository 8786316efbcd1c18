// SPDX-License-Identifier: Apache-2.0
#include "device/sim/access.hpp"

#include <algorithm>
#include <iterator>

namespace gpupool::internal {
namespace {

using Record = SimAccesses::Record;
using Records = SimAccesses::Records;
using Use = SimAccesses::Use;
using Access = SimAccesses::Access;

/// Splits the record that reaches across offset, if any.
void split(Records& records, uint64_t offset) {
  const auto after = records.lower_bound(offset);
  if (after == records.begin()) return;
  Record& record = std::prev(after)->second;
  if (record.end_offset <= offset) return;
  records.emplace_hint(after, offset, record);
  record.end_offset = offset;
}

/// A write that does not race comes after everything that was there, so it replaces it.
void note_write(Records& records, const Access& access) {
  const uint64_t end = access.offset + access.size;
  const auto after = records.erase(records.lower_bound(access.offset), records.lower_bound(end));
  records.emplace_hint(after, access.offset, Record{end, access.use, {}});
}

void note_read(Records& records, const Access& access) {
  const uint64_t end = access.offset + access.size;
  auto it = records.lower_bound(access.offset);
  for (uint64_t at = access.offset; at < end; at = it->second.end_offset, ++it) {
    if (it == records.end() || it->first > at) {
      const uint64_t gap_end = it == records.end() ? end : std::min(end, it->first);
      it = records.emplace_hint(it, at, Record{gap_end, {}, {}});
    }
    std::vector<Use>& reads = it->second.reads;
    const auto own = std::find_if(reads.begin(), reads.end(),
                                  [&](const Use& read) { return read.stream == access.use.stream; });
    if (own == reads.end()) {
      reads.push_back(access.use);
    } else {
      *own = access.use;
    }
  }
}

}  // namespace

SimAccesses::Records::const_iterator SimAccesses::first_overlap(uint64_t offset) const {
  auto it = records_.upper_bound(offset);
  if (it != records_.begin() && std::prev(it)->second.end_offset > offset) --it;
  return it;
}

std::optional<SimAccesses::Use> SimAccesses::conflict(uint64_t offset, uint64_t size, Stream stream,
                                                      uint64_t start, bool writes) const {
  const auto collides = [&](const Use& use) { return use.stream != stream && use.end > start; };
  for (auto it = first_overlap(offset); it != records_.end() && it->first < offset + size; ++it) {
    const Record& record = it->second;
    if (collides(record.write)) return record.write;
    if (!writes) continue;
    const auto read = std::find_if(record.reads.begin(), record.reads.end(), collides);
    if (read != record.reads.end()) return *read;
  }
  return std::nullopt;
}

SimAccesses::Records SimAccesses::with(std::span<const Access> accesses, uint64_t now) {
  if (records_.size() >= sweep_at_) drop_finished(now);
  Records result;
  for (const Access& access : accesses) {
    const Records::const_iterator end = records_.lower_bound(access.offset + access.size);
    result.insert(first_overlap(access.offset), end);
  }
  for (const Access& access : accesses) {
    split(result, access.offset);
    split(result, access.offset + access.size);
    access.writes ? note_write(result, access) : note_read(result, access);
  }
  return result;
}

void SimAccesses::replace(std::span<const Access> accesses, Records records) noexcept {
  for (const Access& access : accesses) {
    records_.erase(first_overlap(access.offset), records_.lower_bound(access.offset + access.size));
  }
  records_.merge(records);
}

/// Keeps the map small: records that all ended by `now` cannot race with anything still to come.
void SimAccesses::drop_finished(uint64_t now) {
  std::erase_if(records_, [now](const auto& entry) {
    const Record& record = entry.second;
    return record.write.end <= now && std::all_of(record.reads.begin(), record.reads.end(),
                                                  [now](const Use& read) { return read.end <= now; });
  });
  sweep_at_ = std::max<size_t>(1024, 2 * records_.size());
}

}  // namespace gpupool::internal
