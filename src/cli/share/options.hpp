// SPDX-License-Identifier: Apache-2.0
// What is asked of gpupool share.
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
  std::optional<uint64_t> guaranteed;  // set in a member of the self-test: its guarantee
};

/// gpupool share --serve: hands the regions of groups to processes of several users, until SIGTERM or SIGINT.
/// docs/inside/broker.md has the protocol.
int run_share_broker(const ShareOptions& options);

/// Starts processes of this program in a group of its own, has them hoard, ask and be killed, and prints a
/// line for each thing that must hold. Returns the exit status: 1 if one does not; 128 and a signal that ends
/// it.
int run_share_selftest(const ShareOptions& options);
/// Is such a process, which obeys its standard input until that ends. Returns the exit status.
int be_test_member(const ShareOptions& options);

}  // namespace gpupool::cli
