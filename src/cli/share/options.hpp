// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpupool::cli {

/// The options of gpupool share.
struct ShareOptions {
  std::string group;   // "": as GPUPOOL_SHARE says, or else, to list, all
  std::string device;  // "": to list, all; else auto
  bool list = false;
  bool repair = false;
  bool selftest = false;
  bool json = false;
  std::vector<std::string> figures;  // FIGURE=VALUE
  std::optional<uint32_t> member;
  std::string socket;  // of a broker; "": as GPUPOOL_SHARE_SOCKET says
  // For the broker.
  std::string serve;  // its socket
  std::string limit;
  std::vector<std::string> allowed_users;  // names or numbers
  std::vector<std::string> allowed_groups;
  // For the self-test.
  uint32_t processes = 4;
  double seconds = 3;
  std::string size;                    // "": as kTestGroupSize says
  std::optional<uint64_t> guaranteed;  // set in a member of the self-test: its guarantee
};

}  // namespace gpupool::cli
