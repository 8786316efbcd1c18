// SPDX-License-Identifier: Apache-2.0
// gpupool share --serve: hands the regions of groups to processes of several users. docs/inside/broker.md has
// the protocol.
#pragma once

#include "cli/share/options.hpp"

namespace gpupool::cli {

/// Serves until SIGTERM or SIGINT.
int run_share_broker(const ShareOptions& options);

}  // namespace gpupool::cli
