// SPDX-License-Identifier: Apache-2.0
// One pool of a recording in other tools' formats.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// A snapshot as PyTorch's memory_viz reads it, with at most the `last` events, at the end or at the peak.
/// export_torch.cpp says what that viewer needs.
std::string torch_snapshot_of(const Recording& recording, uint64_t pool, uint64_t last, bool at_peak);

/// Chrome's JSON, for Perfetto and chrome://tracing: counters of what was live and free, marks and failures.
/// It goes out piece by piece.
void write_chrome_trace(const Recording& recording, uint64_t pool,
                        const std::function<void(std::string_view)>& write);

/// The text format 0.0.4 of Prometheus: the final figures of all pools of the recording.
std::string prometheus_text_of(const Recording& recording);

}  // namespace gpupool::cli
