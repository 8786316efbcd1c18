// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// Says on standard error what a recording that was just packed has, and what it lost. False if it
/// lost all of it.
bool report_packed(const std::string& file, const Damage& damage);

}  // namespace gpupool::cli
