// SPDX-License-Identifier: Apache-2.0
// One pool of a recording: which one is meant, and what it did as a trace for the replay.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

#include "cli/recording/recording.hpp"
#include "cli/recording/trace.hpp"

namespace gpupool::cli {

/// How many mallocs each pool of a recording has, for those that have any.
std::map<uint64_t, uint64_t> mallocs_by_pool(const Recording& recording);

/// The pool to use: `wanted` or, if that is 0, the only one. Throws InputError.
uint64_t choose_pool(const Recording& recording, uint64_t wanted);

/// Writes a pool's events in the text format that gpupool replay reads.
void write_trace(const Recording& recording, uint64_t pool,
                 const std::function<void(std::string_view)>& write);

/// The same as a trace. Throws InputError if there are more events than a trace can have.
Trace trace_of(const Recording& recording, uint64_t pool);

}  // namespace gpupool::cli
