// SPDX-License-Identifier: Apache-2.0
#include "device/sim_access.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpupool {

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

void SimAccesses::note(uint64_t offset, uint64_t size, Use use, bool writes, uint64_t now) {
  if (records_.size() >= sweep_at_) drop_finished(now);
  split(offset);
  split(offset + size);
  writes ? note_write(offset, size, use) : note_read(offset, size, use);
}

/// Makes no record reach across offset.
void SimAccesses::split(uint64_t offset) {
  const auto after = records_.lower_bound(offset);
  if (after == records_.begin()) return;
  Record& record = std::prev(after)->second;
  if (record.end_offset <= offset) return;
  records_.emplace_hint(after, offset, record);
  record.end_offset = offset;
}

/// A write that does not race comes after all that was there, so it replaces it.
void SimAccesses::note_write(uint64_t offset, uint64_t size, Use use) {
  const auto after = records_.erase(records_.lower_bound(offset), records_.lower_bound(offset + size));
  records_.emplace_hint(after, offset, Record{offset + size, use, {}});
}

void SimAccesses::note_read(uint64_t offset, uint64_t size, Use use) {
  const uint64_t end = offset + size;
  auto it = records_.lower_bound(offset);
  for (uint64_t at = offset; at < end; at = it->second.end_offset, ++it) {
    if (it == records_.end() || it->first > at) {
      const uint64_t gap_end = it == records_.end() ? end : std::min(end, it->first);
      it = records_.emplace_hint(it, at, Record{gap_end, {}, {}});
    }
    std::vector<Use>& reads = it->second.reads;
    const auto own =
        std::find_if(reads.begin(), reads.end(), [&](const Use& read) { return read.stream == use.stream; });
    if (own == reads.end()) {
      reads.push_back(use);
    } else {
      *own = use;
    }
  }
}

/// Keeps the map small: records that all ended by `now` cannot race with anything that is still to come.
void SimAccesses::drop_finished(uint64_t now) {
  std::erase_if(records_, [now](const auto& entry) {
    const Record& record = entry.second;
    return record.write.end <= now && std::all_of(record.reads.begin(), record.reads.end(),
                                                  [now](const Use& read) { return read.end <= now; });
  });
  sweep_at_ = std::max<size_t>(1024, 2 * records_.size());
}

}  // namespace gpupool
