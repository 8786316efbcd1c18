// SPDX-License-Identifier: Apache-2.0
// Who held the memory of a pool at its peak and at the end, for programs.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/recording/live.hpp"
#include "cli/report/story.hpp"

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Held {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

/// What is live once so many events of the recording have happened.
Json holders_after(const Story& story, uint64_t events) {
  const Recording& recording = *story.recording;
  LiveBlocks live;
  for (size_t i = 0; i < events; ++i) {
    if (recording.events[i].pool == story.pool) live.take(recording.events[i]);
  }
  using Key = std::tuple<uint32_t, uint32_t, bool>;  // stack, tag, whether it was there before
  std::map<Key, Held> held;
  for (const auto& [key, block] : live.all()) {
    const Happened& made = *block.made;
    Held& sum = held[{made.stack, made.tag, made.kind == Kind::have}];
    sum.bytes += rounded(made.bytes);
    ++sum.blocks;
  }
  std::vector<std::pair<Key, Held>> rows(held.begin(), held.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes : a.first < b.first;
  });
  Json list = Json::array();
  for (const auto& [key, sum] : rows) {
    const auto& [stack, tag, was_there] = key;
    const auto found = recording.stacks.find(stack);
    list.push_back({{"bytes", sum.bytes},
                    {"blocks", sum.blocks},
                    {"before", was_there},
                    {"tag", recording.tag(tag)},
                    {"stack", found != recording.stacks.end() ? found->second : ""}});
  }
  return list;
}

/// How the process ended. Only an end by exit() ends a recording too; what else has a status was _exit.
Json end_to_json(const Recording& recording) {
  using How = ProcessEnd::How;
  const ProcessEnd& end = recording.end;
  switch (end.how) {
    case How::exited: return {{"how", recording.is_ended ? "exit" : "_exit"}, {"status", end.number}};
    case How::signal: return {{"how", "signal"}, {"signal", end.number}, {"name", signal_name(end.number)}};
    case How::exec: return {{"how", "exec"}};
    case How::still: return {{"how", "still runs"}};
    default: return {{"how", "unknown"}};
  }
}

}  // namespace

nlohmann::ordered_json holders_to_json(const Story& story) {
  const Groups& groups = story.groups;
  return {{"file", story.recording->file},
          {"pid", story.recording->pid},
          {"end", end_to_json(*story.recording)},
          {"lost_events", story.recording->lost},
          {"is_cut", story.recording->is_cut},
          {"pool", story.pool},
          {"device", story.about.device},
          {"limit_bytes", story.about.limit_bytes},
          {"fits_bytes", story.fits_bytes ? Json(*story.fits_bytes) : Json()},
          {"mallocs", groups.mallocs},
          {"failed", groups.failed.size()},
          {"peak_live_bytes", groups.peak_bytes},
          {"peak_reserved_bytes", story.timeline.peak_reserved},
          {"peak_ns", groups.peak_ns},
          {"at_peak", holders_after(story, story.timeline.events[story.timeline.peak])},
          {"end_live_bytes", groups.end_bytes},
          {"at_end", holders_after(story, story.recording->events.size())}};
}

}  // namespace gpupool::cli
