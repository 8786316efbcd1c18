// SPDX-License-Identifier: Apache-2.0
#include "cli/report/story.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/library.hpp"
#include "cli/base/size.hpp"
#include "cli/measure/replay.hpp"
#include "cli/recording/recorded_pool.hpp"

namespace gpupool::cli {
namespace {

/// Moments in the charts, or twice as many.
constexpr uint64_t kMoments = 700;

std::string seconds(uint64_t ns) {
  return fmt::format("{:.3f} s", static_cast<double>(ns) / 1e9);
}

std::string times(uint64_t part, uint64_t of) {
  return fmt::format("{:.3f} times", static_cast<double>(part) / static_cast<double>(of));
}

std::string holder(const Story& story, const SiteSums& site) {
  const std::string tag = story.recording->tag(site.tag);
  return fmt::format("{} {}{}{}", format_bytes(site.peak_bytes),
                     site.stack != 0 ? "by " : "of unknown origin",
                     site.stack != 0 ? story.recording->site(site.stack) : "",
                     tag.empty() ? "" : fmt::format(" under the tag \"{}\"", tag));
}

std::string tell_holders(const Story& story) {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, story.groups.sites.size()); ++i) {
    if (story.groups.sites[i].peak_bytes == 0) break;
    text += (i == 0 ? "" : "; ") + holder(story, story.groups.sites[i]);
  }
  return "Most was held then: " + text + ".";
}

std::string tell_end(const Story& story) {
  const Groups& groups = story.groups;
  if (groups.end_blocks == 0) return "Everything was freed at the end.";
  return fmt::format("At the end {} in {} blocks are live.", format_bytes(groups.end_bytes),
                     format_count(groups.end_blocks));
}

std::string tell_growing(const Story& story) {
  constexpr size_t kMost = 3;
  const std::vector<Leak>& growing = story.groups.growing;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, growing.size()); ++i) {
    text += fmt::format("{}{} grows by {}", i == 0 ? "" : "; ", name_of(*story.recording, growing[i]),
                        growing[i].growth.words());
  }
  return fmt::format("{}{}: see the leak candidates.", text,
                     growing.size() > kMost ? fmt::format("; and {} more grow", growing.size() - kMost) : "");
}

void find_fit(Story& story, Progress& progress) {
  try {
    const Trace trace = trace_of(*story.recording, story.pool);
    ReplaySetup setup;
    setup.config = config_for(find_device("sim"));
    setup.passes = 1;
    std::vector<std::string> problems;
    const double hint = static_cast<double>(story.timeline.peak_reserved) /
                        static_cast<double>(std::max<uint64_t>(trace.peak_live_bytes, 1));
    const std::optional<double> cap = find_cap(trace, setup, hint, progress, problems);
    if (cap && problems.empty()) {
      story.fits_bytes = scale_bytes(trace.peak_live_bytes, *cap);
      story.advice = advise(*story.recording, story.pool, progress);
    } else {
      story.fits_not = problems.empty() ? "the replay never completes on the simulated device" : problems[0];
    }
  } catch (const std::exception& error) {  // a workload that no simulated device can have
    story.fits_not = error.what();
  }
}

std::string tell_fit(const Story& story) {
  const std::string with = "A replay says that the run ";
  if (!story.fits_bytes)
    return "It is not known under which limit the run would fit: " + story.fits_not + ".";
  const uint64_t limit = story.about.limit_bytes;
  return with +
         fmt::format("would fit under a limit of {}, {} what is live at the peak{}.",
                     format_bytes(*story.fits_bytes), times(*story.fits_bytes, story.groups.peak_bytes),
                     limit != 0 ? fmt::format("; the pool had a limit of {}", format_bytes(limit)) : "");
}

}  // namespace

Story make_story(const Recording& recording, uint64_t pool, bool play_again, Progress& progress) {
  progress.begin(fmt::format("what pool {} did", pool), 3);
  Story story{&recording, pool, {}, make_timeline(recording, pool, kMoments), {}, {}, {}, {}, {}, nullptr};
  progress.set(1);
  if (const auto found = recording.pools.find(pool); found != recording.pools.end()) {
    story.about = found->second;
  }
  story.layout = make_layout(recording, pool, story.timeline);
  progress.set(2);
  story.groups = make_groups(recording, pool, story.timeline);
  if (play_again) {
    find_fit(story, progress);
  } else {
    story.fits_not = "it was not asked for";
  }
  progress.clear();
  return story;
}

std::vector<std::string> tell(const Story& story) {
  const Groups& groups = story.groups;
  const Timeline& timeline = story.timeline;
  std::vector<std::string> told;
  const uint64_t reserved = timeline.reserved[timeline.peak];
  told.push_back(
      fmt::format("At the peak, {} after the recording began, {} were live in {} blocks{}.",
                  seconds(groups.peak_ns), format_bytes(groups.peak_bytes), format_count(groups.peak_blocks),
                  reserved == 0 ? ""
                                : fmt::format("; the pool held {} then, and {} at most",
                                              format_bytes(reserved), format_bytes(timeline.peak_reserved))));
  told.push_back(tell_holders(story));
  told.push_back(tell_end(story));
  if (!groups.growing.empty()) told.push_back(tell_growing(story));
  if (!groups.failed.empty()) {
    told.push_back(
        fmt::format("{} {}, of {} after {}.", format_count(groups.failed.size()),
                    groups.failed.size() == 1 ? "malloc has failed" : "mallocs have failed, the first",
                    format_bytes(groups.failed[0].bytes), seconds(groups.failed[0].ns)));
  }
  told.push_back(tell_fit(story));
  if (std::string how = story.recording->how_it_ended(); !how.empty()) {
    how[0] = 'T';  // of "the process"
    told.push_back(how +
                   (story.recording->is_ended ? "." : "; what happened later is not in the recording."));
  }
  if (const std::string missing = story.recording->what_is_missing(); !missing.empty())
    told.push_back("Of the recording, " + missing + ".");
  return told;
}

}  // namespace gpupool::cli
