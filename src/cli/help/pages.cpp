// SPDX-License-Identifier: Apache-2.0
#include "cli/help/pages.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/base/library.hpp"

namespace gpupool::cli {

void write_pages(const CLI::App& app, const std::string& folder) {
  std::vector<Page> pages = manual_pages(app);
  for (Page& page : completions(app)) pages.push_back(std::move(page));
  for (const Page& page : pages) {
    const std::filesystem::path path = std::filesystem::path(folder) / page.path;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    file << page.text;
    file.close();
    if (!file) throw InputError(fmt::format("{} cannot be written", path.string()));
  }
}

}  // namespace gpupool::cli
