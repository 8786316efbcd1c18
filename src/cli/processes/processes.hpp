// SPDX-License-Identifier: Apache-2.0
// The processes of this machine that show pools, as far as the system lets this one look.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/processes/stats_page.hpp"

namespace gpupool::cli {

struct ShownProcess {
  uint64_t pid = 0;  // as this process's namespace numbers it
  uint64_t uid = 0;
  std::string user;
  std::string command;           // any bytes
  std::vector<StatsPage> pages;  // one of each copy of the library
  std::string why_closed;        // not "": a page of it cannot be read
};

/// The program of a process without its folder, and its arguments; "" if it is not seen here.
std::string command_of_process(uint64_t pid);

/// Which file it is, whatever leads to it.
using FileId = std::pair<dev_t, ino_t>;

class Processes {
 public:
  /// In the order of process numbers. `only`: this process; 0: all. What is shown is there, but of a process
  /// that was seen before, the command, the user and further pages may be up to 20 seconds old.
  std::vector<ShownProcess> look(uint64_t only);

 private:
  using Clock = std::chrono::steady_clock;
  using Seen = std::set<FileId>;  // pages, in one look

  struct PagePlace {
    std::string name;  // "4711/fd/5"
    FileId file;
  };
  /// What is remembered of a process for as long as its pages are where they were: to search all descriptors
  /// of a thousand processes takes a tenth of a second.
  struct Known {
    ShownProcess process;  // but its pages
    uint64_t inner = 0;    // as its own namespace numbers it
    std::vector<PagePlace> places;
    Clock::time_point trusted_until;
  };

  const std::string& user_of(uint64_t uid);
  std::optional<ShownProcess> search(int all, const std::string& pid, Seen& seen, Known& known);
  static std::optional<ShownProcess> read_again(int all, Seen& seen, const Known& known);

  std::map<uint64_t, std::string> users_;
  std::map<uint64_t, Known> known_;
};

}  // namespace gpupool::cli
