// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gpupool::cli {

/// The text as gzip packs it.
std::string pack_gzip(const std::string& text);

}  // namespace gpupool::cli
