// SPDX-License-Identifier: Apache-2.0
// Asks another process of this user to do something with its pools. It trusts neither what a process
// announces nor what it answers.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <string>

#include "cli/base/process_files.hpp"
#include "gpupool/gpupool.h"
#include "wire/control.hpp"

namespace gpupool::cli {

using ControlCommand = wire::control::Command;

struct ControlRequest {
  ControlCommand command = ControlCommand::trim;
  uint64_t pool = 0;  // its number; 0: see tag
  std::string tag;    // "": all pools
  uint64_t bytes = 0;
  double timeout = 0;  // seconds
  int32_t mode = 0;
  uint32_t flags = 0;
  std::string path;
};

struct ControlReply {
  gpupool_status_t status = GPUPOOL_SUCCESS;
  std::string message;         // "": it was done
  uint32_t pools = 0;          // how many the command was for
  uint32_t changed_pools = 0;  // how many of them it changed
  uint64_t released = 0;
  uint64_t saved = 0;
  uint64_t dropped = 0;
  uint64_t retained = 0;
  uint64_t created = 0;
  double seconds = 0;
  OpenFile file;  // of a snapshot, or of holders
};

/// A connection to a process. All functions throw InputError if the process cannot be controlled, and
/// std::runtime_error if it does not answer in time.
class Control {
 public:
  /// `wait`: for how many seconds to wait for each answer.
  Control(uint64_t pid, double wait);

  /// A failure of the process itself is in the reply. Says now and then, on a terminal, that it still waits.
  ControlReply ask(const ControlRequest& request);

  /// Waits until the process is gone, the time is over, or a signal comes that `mask` lets through. True: it
  /// is gone.
  bool wait_for_end(double seconds, const sigset_t& mask) const;

 private:
  void connect_to(const std::string& name);
  ControlReply receive(double seconds);

  uint64_t pid_;
  double wait_;
  std::array<unsigned char, wire::control::kKeyBytes> key_{};
  OpenFile socket_;
};

}  // namespace gpupool::cli
