// SPDX-License-Identifier: Apache-2.0
#include "cli/report/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/recording/frame.hpp"

namespace gpupool::cli {
namespace {

namespace fs = std::filesystem;

/// More than any program's own sources; a home folder with all that is installed in it has more.
constexpr size_t kMostSourceFiles = 100'000;
/// Longer files are not written by hand.
constexpr uint64_t kMostSourceBytes = 4 << 20;
constexpr uint64_t kMostShownBytes = 2 << 20;  // on one page
constexpr size_t kMostLine = 200;
constexpr uint64_t kLinesAround = 3;

/// How many names two paths have in common, from their ends.
size_t alike(const fs::path& a, const fs::path& b) {
  const std::vector<fs::path> x(a.begin(), a.end());
  const std::vector<fs::path> y(b.begin(), b.end());
  const auto [end, unused] = std::mismatch(x.rbegin(), x.rend(), y.rbegin(), y.rend());
  return static_cast<size_t>(end - x.rbegin());
}

size_t length_of(const fs::path& path) {
  return static_cast<size_t>(std::distance(path.begin(), path.end()));
}

/// Hidden ones are those of tools.
bool is_hidden(const fs::path& path) {
  return path.filename().native().front() == '.';
}

}  // namespace

Sources::Sources(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path whole = fs::canonical(folder, error);
    if (error || !fs::is_directory(whole)) throw InputError("--sources " + folder + ": is not a folder");
    list(whole);
  }
}

void Sources::list(const Path& folder) {
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    const fs::path& path = at->path();
    if (at->is_directory(unknown)) {
      if (is_hidden(path)) at.disable_recursion_pending();
    } else if (at->is_regular_file(unknown)) {
      if (places_.size() == kMostSourceFiles) {
        throw InputError(fmt::format("--sources {}: has more than {} files; name the program's own folder",
                                     folder.string(), kMostSourceFiles));
      }
      places_.emplace(path.filename(), Place{path, path.lexically_relative(folder)});
    }
  }
  if (error) throw InputError(fmt::format("--sources {}: {}", folder.string(), error.message()));
}

const Sources::Place* Sources::find(const Path& wanted) const {
  const auto [begin, end] = places_.equal_range(wanted.filename());
  std::vector<const Place*> best;
  size_t most = 1;
  for (auto at = begin; at != end; ++at) {
    const Place& place = at->second;
    const size_t count = alike(place.path, wanted);
    if (count < most || count < std::min(length_of(wanted), length_of(place.below))) continue;
    if (count > most) best.clear();
    best.push_back(&place);
    most = count;
  }
  return best.size() == 1 ? best.front() : nullptr;
}

const Sources::Lines& Sources::read(const Path& path) {
  const auto [found, is_new] = read_.try_emplace(path);
  std::error_code error;
  if (!is_new || fs::file_size(path, error) > kMostSourceBytes || error) return found->second;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    found->second.push_back(line.substr(0, kMostLine));
  }
  return found->second;
}

std::optional<SourceLines> Sources::around(const std::string& text) {
  const Frame frame = split_frame(text);
  if (frame.line == 0 || bytes_ >= kMostShownBytes) return {};
  const Place* place = find(fs::path(frame.file));
  if (place == nullptr) return {};
  const Lines& lines = read(place->path);
  if (frame.line > lines.size()) return {};
  const uint64_t first = frame.line > kLinesAround ? frame.line - kLinesAround : 1;
  const uint64_t last = std::min<uint64_t>(frame.line + kLinesAround, lines.size());
  SourceLines made{first,
                   {lines.begin() + static_cast<std::ptrdiff_t>(first - 1),
                    lines.begin() + static_cast<std::ptrdiff_t>(last)}};
  for (const std::string& line : made.lines) bytes_ += line.size();
  return made;
}

std::vector<std::string> Sources::changed_since(uint64_t realtime_ns) const {
  std::vector<std::string> changed;
  for (const auto& [path, lines] : read_) {
    std::error_code error;
    const auto written = fs::last_write_time(path, error);
    if (error) continue;
    // What the file system's clock says, by the system's.
    const auto age =
        std::chrono::duration_cast<std::chrono::nanoseconds>(fs::file_time_type::clock::now() - written);
    const auto then = std::chrono::system_clock::now().time_since_epoch() - age;
    if (std::chrono::duration_cast<std::chrono::nanoseconds>(then).count() >
        static_cast<int64_t>(realtime_ns)) {
      changed.push_back(path.string());
    }
  }
  return changed;
}

}  // namespace gpupool::cli
