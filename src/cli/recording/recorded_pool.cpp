// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/recorded_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/recording/live.hpp"

namespace gpupool::cli {

std::map<uint64_t, uint64_t> mallocs_by_pool(const Recording& recording) {
  std::map<uint64_t, uint64_t> used;
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::malloc || event.kind == Kind::have) ++used[event.pool];
  }
  return used;
}

uint64_t choose_pool(const Recording& recording, uint64_t wanted) {
  const std::map<uint64_t, uint64_t> used = mallocs_by_pool(recording);
  if (wanted != 0 && !used.contains(wanted)) {
    throw InputError(fmt::format("{}: pool {} has allocated nothing", recording.file, wanted));
  }
  if (wanted != 0 || used.size() == 1) return wanted != 0 ? wanted : used.begin()->first;
  if (used.empty()) throw InputError(recording.file + ": nothing was allocated");
  constexpr size_t kMostNamed = 4;
  std::vector<std::string> names;
  names.reserve(used.size());
  for (const auto& [pool, mallocs] : used) names.push_back(fmt::format("{} ({} mallocs)", pool, mallocs));
  throw InputError(
      fmt::format("{}: choose one with --pool: {}", recording.file, list_first(names, kMostNamed, ", ")));
}

namespace {

/// From the first of the pool's events to its last.
double seconds_of(const Recording& recording, uint64_t pool) {
  const auto is_of_pool = [&](const Happened& event) { return event.pool == pool; };
  const auto first = std::find_if(recording.events.begin(), recording.events.end(), is_of_pool);
  if (first == recording.events.end()) return 0;
  const auto last = std::find_if(recording.events.rbegin(), recording.events.rend(), is_of_pool);
  return static_cast<double>(last->ns - first->ns) / 1e9;
}

}  // namespace

void write_trace(const Recording& recording, uint64_t pool,
                 const std::function<void(std::string_view)>& write) {
  write("#! gpupool-trace 2\n");
  write(fmt::format("# {}, pool {}, library {}\n", one_line(recording.command), pool,
                    one_line(recording.library)));
  const std::string seconds = fmt::format("{:.6f}", seconds_of(recording, pool));
  if (seconds != "0.000000") write(fmt::format("# duration {}\n", seconds));
  if (recording.lost != 0) write(fmt::format("# {} events were lost\n", recording.lost));
  LiveBlocks live;
  uint32_t tag = 0;
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::mark) {
      write(fmt::format("#m {}\n", one_line(recording.marks[event.bytes])));
      continue;
    }
    if (event.pool != pool) continue;
    if (const LiveBlock* const used = event.kind == Kind::use ? live.find(event) : nullptr) {
      write(fmt::format("#u {} {}\n", used->number, event.stream));
    }
    live.take(
        event,
        [&](const LiveBlock& block) {
          if (event.tag != tag) write(fmt::format("#g {}\n", recording.tag(event.tag)));
          tag = event.tag;
          write(fmt::format("a {} {} {}\n", block.number, event.bytes, event.stream));
        },
        [&](const LiveBlock& block, const Happened&) { write(fmt::format("f {}\n", block.number)); });
  }
}

Trace trace_of(const Recording& recording, uint64_t pool) {
  std::string text;
  write_trace(recording, pool, [&](std::string_view piece) { text += piece; });
  return parse_trace(text, recording.file);
}

}  // namespace gpupool::cli
