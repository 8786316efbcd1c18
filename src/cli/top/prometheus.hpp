// SPDX-License-Identifier: Apache-2.0
// The pools of running processes in the text format 0.0.4 of Prometheus.
#pragma once

#include <string>

#include "cli/top/look.hpp"

namespace gpupool::cli {

std::string prometheus_text_of(const Look& now);

}  // namespace gpupool::cli
