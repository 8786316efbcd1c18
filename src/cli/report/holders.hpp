// SPDX-License-Identifier: Apache-2.0
// Who held the memory of a pool at its peak and at the end, for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/report/story.hpp"

namespace gpupool::cli {

/// Each call site under one tag, what held most first. What was live when the recording began stands apart
/// from what was allocated since.
nlohmann::ordered_json holders_to_json(const Story& story);

}  // namespace gpupool::cli
