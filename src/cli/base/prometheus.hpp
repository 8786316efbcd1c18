// SPDX-License-Identifier: Apache-2.0
// What all texts for Prometheus need.
#pragma once

#include <string>

namespace gpupool::cli {

/// A label's value, as it stands between quotes: any bytes as `harmless` shows them, with what would end it,
/// and ends of lines, escaped.
std::string label_text(const std::string& text);

}  // namespace gpupool::cli
