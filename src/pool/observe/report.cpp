// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/report.hpp"

#include <algorithm>
#include <utility>

#include "base/size_text.hpp"
#include "base/status.hpp"
#include "pool/memory/exports.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/release.hpp"
#include "pool/observe/free_ranges.hpp"
#include "pool/sleep/sleeper.hpp"

namespace gpupool::internal {
namespace {

/// In threads' caches, which wait meanwhile.
constexpr size_t kMostBlocks = 1024;

}  // namespace

/// How many chunks there are of each size: "3 x 2.00 MiB, 1 x 16.00 MiB". Segments count as the power of two
/// below their size.
std::string Report::chunks_by_size() const {
  std::string text;
  for (unsigned at = 0; at < Ledger::kSizes; ++at) {
    const uint64_t count = pool_.ledger.chunks_of_size(at);
    if (count != 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + size_text(uint64_t{1} << at);
  }
  return text.empty() ? "none" : text;
}

std::string Report::text() const {
  std::string text;
  add_line(text, device_report());
  add_line(text, own_report());
  add_shared_report(text);
  add_parts_report(text);
  add_graphs_report(text);
  if (const uint64_t imported = exports_.kept_bytes(); imported != 0)
    add_line(text, "Other processes still use " + size_text(imported) + " in blocks that they imported");
  if (std::string asleep = sleeper_.describe(); !asleep.empty()) add_line(text, std::move(asleep));
  return text;
}

std::string Report::device_report() const {
  const DeviceInfo& info = pool_.device.info();
  std::string text =
      "Device " + std::to_string(info.ordinal) + " (" + info.name + ") has " + size_text(info.total);
  uint64_t free = 0;
  if (pool_.device.raw().free_memory(free) != kSuccess) return text;
  const uint64_t taken = info.total - std::min(info.total, free);
  return text + ": " + size_text(free) + " is free, and " +
         size_text(taken - std::min(taken, pool_.ledger.used())) + " is held outside this pool";
}

std::string Report::own_report() const {
  const Budget& budget = pool_.ledger.budget();
  const std::string name = pool_.gate.name.empty() ? "" : ", '" + pool_.gate.name + "',";
  const uint64_t limit = budget.own_limit();
  std::string text = "This pool" + name + " holds " + size_text(pool_.ledger.used());
  text += limit == Budget::kNone ? std::string(", without a limit") : " of a limit of " + size_text(limit);
  if (const char* by = budget.bound_by(); by != nullptr) text += std::string(" (") + by + ")";
  return text;
}

/// What the pool holds, by its state.
void Report::add_parts_report(std::string& text) const {
  const Amounts live = pool_.caches.live();
  const Amounts pending = pool_.caches.pending();
  const uint64_t used = pool_.ledger.used();
  const uint64_t elsewhere = live.allocated + pending.allocated + pool_.captures.kept_bytes();
  const FreeRanges ranges = FreeRanges::of(pool_, ~size_t{0}, kMostBlocks);
  add_line(text, "  " + size_text(live.allocated) + " in " + std::to_string(live.blocks) + " live blocks (" +
                     size_text(live.requested) + " requested)");
  add_line(text, "  " + size_text(pending.allocated) + " in " + std::to_string(pending.blocks) +
                     " freed blocks that wait for streams");
  add_line(text, "  " + size_text(used - std::min(used, elsewhere)) + " cached, of which " +
                     size_text(releasable(pool_)) +
                     " is in chunks that no block touches; the largest free range is " +
                     size_text(ranges.largest));
  add_line(text, "  chunks: " + chunks_by_size() + "; " + std::to_string(pool_.streams.count()) + " streams");
}

/// What the graphs that were captured keep from all others, or from going back to the device.
void Report::add_graphs_report(std::string& text) const {
  if (const uint64_t kept = pool_.captures.kept_bytes(); kept != 0) {
    add_line(text, "Captured graphs keep " + size_text(kept) +
                       ": gpupool_release_capture frees it once they are gone");
  }
  if (pool_.captures.hold_all())
    add_line(text, "A graph was captured with this pool's memory, so none of it goes back to the device");
}

/// Whom the pool shares its limit with: children or a parent, and other processes.
void Report::add_shared_report(std::string& text) const {
  const Budget& budget = pool_.ledger.budget();
  if (const auto others = budget.shared().use_count() - 1; others > 0) {
    const std::string who =
        pool_.options.is_child
            ? std::string("its parent and that one's other child pools hold ")
            : std::to_string(others) + (others == 1 ? " child pool holds " : " child pools hold ");
    add_line(text, "  under the same limit, " + who + size_text(budget.used_by_others()));
  }
  const GroupLink& group = pool_.group;
  if (group.limit != nullptr) {
    add_line(text, "  sharing " + size_text(group.limit->member().limit()) + " with the group " +
                       group.limit->member().place().group + ", which has " + size_text(group.limit->room()) +
                       " left");
  } else if (group.runs_alone) {
    add_line(text, "  sharing with nobody, since it runs alone");
  }
}

}  // namespace gpupool::internal
