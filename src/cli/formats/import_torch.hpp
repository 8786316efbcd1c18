// SPDX-License-Identifier: Apache-2.0
// PyTorch's snapshots (torch.cuda.memory._dump_snapshot, or _snapshot pickled) as a recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// Whether a file's first bytes may be a pickle's, or an archive's by mistake. Those of RMM's log never are.
bool is_pickle(std::string_view begin) noexcept;

/// The events of one device, or of all. Each device becomes a pool: device N is pool N + 1. `label` is what
/// messages call the file. Throws InputError "label: at byte N: what is wrong".
Recording recording_of_snapshot(const std::string& label, std::string bytes, std::optional<uint32_t> device);

}  // namespace gpupool::cli
