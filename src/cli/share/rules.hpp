// SPDX-License-Identifier: Apache-2.0
// What a broker answers, and whom it serves.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/share/options.hpp"
#include "wire/broker.hpp"

namespace gpupool::cli {

using wire::broker::Asks;
using wire::broker::Outcome;
using wire::broker::Says;

/// What is the same for all who ask.
class Rules {
 public:
  /// Throws InputError if the options name no such user or group, or no limit.
  explicit Rules(const ShareOptions& options);

  /// Whether the process at the other end may ask; `user` is whose it is.
  bool admits(int connection, uid_t& user) const;
  bool serves(const std::string& group) const { return group_.empty() || group_ == group; }
  Says answer(Outcome outcome, const std::string& message = "") const;

 private:
  std::string group_;
  std::vector<uid_t> users_;
  std::vector<gid_t> groups_;
  uint64_t limit_ = 0;
  uint32_t limit_share_ = 0;
};

}  // namespace gpupool::cli
