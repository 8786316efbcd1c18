// SPDX-License-Identifier: Apache-2.0
// What all texts for Prometheus need.
#pragma once

#include <string>

namespace gpupool::cli {

/// A label's value, as it stands between quotes: any bytes as UTF-8, with what would end it escaped.
std::string label_text(const std::string& text);

}  // namespace gpupool::cli
