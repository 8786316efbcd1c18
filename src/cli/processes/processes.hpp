// SPDX-License-Identifier: Apache-2.0
// The processes of this machine that show pools, as far as the system lets this one look.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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

class Processes {
 public:
  /// In the order of process numbers. `only`: this process; 0: all.
  std::vector<ShownProcess> look(uint64_t only);

 private:
  const std::string& user_of(uint64_t uid);

  std::map<uint64_t, std::string> users_;
};

}  // namespace gpupool::cli
