// SPDX-License-Identifier: Apache-2.0
// Lines of a program's source, from folders that the user has named.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpupool::cli {

struct SourceLines {
  uint64_t first;  // number of the first line
  std::vector<std::string> lines;
};

/// A recording names files, and may name any: only what lies in the folders is read. A file is the one that a
/// frame means if the path in the frame and the one below the folder end alike, as far as the shorter goes;
/// of several, the one that is alike farthest. If that is not one alone, it is none.
class Sources {
 public:
  /// Throws InputError if a folder cannot be read or has too many files.
  explicit Sources(const std::vector<std::string>& folders);

  /// The lines around the one that a frame "function (file:line)" names, if its file is here.
  std::optional<SourceLines> around(const std::string& frame);

  /// Files that were read, and changed after that moment.
  std::vector<std::string> changed_since(uint64_t realtime_ns) const;

 private:
  using Path = std::filesystem::path;
  struct Place {
    Path path;
    Path below;  // the same, seen from its folder
  };
  using Lines = std::vector<std::string>;

  void list(const Path& folder);
  const Place* find(const Path& wanted) const;
  const Lines& read(const Path& path);

  std::multimap<Path, Place> places_;  // by file name
  std::map<Path, Lines> read_;
  uint64_t bytes_ = 0;  // of all lines handed out
};

}  // namespace gpupool::cli
