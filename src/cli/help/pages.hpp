// SPDX-License-Identifier: Apache-2.0
// Manual pages and what shells complete, written from the command's own description of its options.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpupool::cli {

/// A file below PREFIX/share.
struct Page {
  std::string path;
  std::string text;
};

/// gpupool.1, and gpupool-COMMAND.1 of each command.
std::vector<Page> manual_pages(const CLI::App& app);

/// For bash, zsh and fish.
std::vector<Page> completions(const CLI::App& app);

/// Writes all of them below the folder, as an installation has them below PREFIX/share. Throws InputError.
void write_pages(const CLI::App& app, const std::string& folder);

}  // namespace gpupool::cli
