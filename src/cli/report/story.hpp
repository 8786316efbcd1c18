// SPDX-License-Identifier: Apache-2.0
// All that a report tells of one pool of a recording, and the same in words and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure/advice.hpp"
#include "cli/recording/recording.hpp"
#include "cli/recording/timeline.hpp"
#include "cli/report/groups.hpp"
#include "cli/report/layout.hpp"
#include "cli/report/sources.hpp"

namespace gpupool::cli {

class Progress;

struct Story {
  const Recording* recording;
  uint64_t pool;
  RecordedPool about;
  Timeline timeline;
  Layout layout;
  Groups groups;
  std::optional<uint64_t> fits_bytes;  // the smallest limit under which the run completes
  std::string fits_not;                // why that is not known
  std::vector<Advice> advice;
  Sources* sources = nullptr;  // of the program, if the user has named some
};

/// `play_again`: also find, by replaying, under which limit the run would complete, and what to change.
Story make_story(const Recording& recording, uint64_t pool, bool play_again, Progress& progress);

/// What happened: a list of sentences.
std::vector<std::string> tell(const Story& story);

nlohmann::ordered_json to_json(const Story& story);

/// Who held the memory at the peak and at the end: each call site under one tag, what held most first. What
/// was live when the recording began stands apart from what was allocated since.
nlohmann::ordered_json holders_to_json(const Story& story);

}  // namespace gpupool::cli
