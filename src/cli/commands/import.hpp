// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpupool::cli {

struct ImportOptions {
  std::string file;
  std::string output = "-";
  std::string format = "text";
  std::optional<uint32_t> device;  // of a snapshot; nothing: all, or the only one
};

/// What gpupool import does. Throws InputError for what is no log and no snapshot.
int run_import(const ImportOptions& options);

}  // namespace gpupool::cli
