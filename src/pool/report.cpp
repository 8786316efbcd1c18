// SPDX-License-Identifier: Apache-2.0
#include "pool/report.hpp"

#include <algorithm>

#include "base/size_text.hpp"
#include "pool/exports.hpp"
#include "pool/rooms.hpp"
#include "pool/statistics.hpp"

namespace gpupool::internal {

/// How many chunks there are of each size: "3 x 2.00 MiB, 1 x 16.00 MiB". Segments count as the power of two
/// below their size.
std::string Report::chunks_by_size() const {
  std::string text;
  for (unsigned at = 0; at < Ledger::kSizes; ++at) {
    const uint64_t count = rooms_.ledger.chunks_of_size(at);
    if (count != 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + size_text(uint64_t{1} << at);
  }
  return text.empty() ? "none" : text;
}

std::string Report::text() const {
  const Amounts live = rooms_.caches.live();
  const Amounts pending = rooms_.caches.pending();
  const uint64_t used = rooms_.ledger.used();
  uint64_t largest = 0;
  for (const auto& state : rooms_.streams.all()) {
    for (const StreamHeap& heap : state->heaps) largest = std::max(largest, heap.largest_hole());
  }
  const DeviceInfo& info = rooms_.device.info();
  const uint64_t limit = rooms_.ledger.budget().own_limit();
  std::string text =
      "Device " + std::to_string(info.ordinal) + " (" + info.name + ") has " + size_text(info.total);
  uint64_t free = 0;
  if (rooms_.device.raw().free_memory(free) == kSuccess) {
    text += ", of which " + size_text(free) + " is free";
    const uint64_t taken = info.total - std::min(info.total, free);
    text += " and " + size_text(taken - std::min(taken, used)) + " is held outside this pool";
  }
  text += ". This pool holds " + size_text(used);
  text += limit == Budget::kNone ? std::string(", without a limit") : " of a limit of " + size_text(limit);
  text += family_report() + group_report() + ": ";
  text += size_text(live.allocated) + " in " + std::to_string(live.blocks) + " live blocks (" +
          size_text(live.requested) + " requested), " + size_text(pending.allocated) + " in " +
          std::to_string(pending.blocks) + " freed blocks that wait for streams, " +
          size_text(used - std::min(used, live.allocated + pending.allocated)) + " cached, of which " +
          size_text(statistics_.releasable()) +
          " is in chunks that no block touches; the largest free range is " + size_text(largest) +
          ". Chunks: " + chunks_by_size() + ". " + std::to_string(rooms_.streams.count()) + " streams.";
  if (const uint64_t kept = exports_.kept_bytes(); kept != 0)
    text += " Other processes still use " + size_text(kept) + " in blocks that they imported.";
  rooms_.sleeper.describe(text);
  return text;
}

/// What a pool's children hold; for a child, what its parent and the parent's other children hold.
std::string Report::family_report() const {
  const Budget& budget = rooms_.ledger.budget();
  const auto others = budget.shared().use_count() - 1;
  if (others <= 0) return "";
  const std::string held = size_text(budget.used_by_others());
  if (rooms_.options.is_child) return ", of which its parent and that one's other child pools hold " + held;
  return ", of which " + std::to_string(others) +
         (others == 1 ? " child pool holds " : " child pools hold ") + held;
}

/// What the group of processes that share the device's memory has, and what is left of it.
std::string Report::group_report() const {
  const Company& company = rooms_.company;
  if (company.neighbours == nullptr)
    return company.runs_alone ? ", and shares with nobody, since it runs alone" : "";
  const uint64_t limit = company.neighbours->member().limit();
  return ", and shares " + size_text(limit) + " with the group " +
         company.neighbours->member().place().group + ", which has " + size_text(company.neighbours->room()) +
         " left";
}

}  // namespace gpupool::internal
