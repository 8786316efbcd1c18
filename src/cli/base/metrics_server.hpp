// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace gpupool::cli {

/// Answers GET /metrics at "ADDRESS:PORT" ("127.0.0.1:9837", "[::1]:0") with the result of `write`, one
/// request after another, until SIGINT or SIGTERM. Throws InputError if that is not an address, or if it
/// cannot listen there.
void serve_metrics(const std::string& address, const std::function<std::string()>& write);

}  // namespace gpupool::cli
