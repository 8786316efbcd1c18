// SPDX-License-Identifier: Apache-2.0
// What a broker and those who ask it say to each other, and whom it serves. docs/inside/broker.md has the
// protocol.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/share/options.hpp"

namespace gpupool::cli {

// src/share/broker.hpp has the same.
inline constexpr char kBrokerMagic[8] = {'g', 'p', 'b', 'r', 'o', 'k', 'e', 'r'};
inline constexpr uint32_t kBrokerVersion = 1;
enum class Outcome : uint32_t { refused, ask, here, none };

struct Says {
  char magic[8];
  uint32_t version;
  Outcome outcome;
  uint64_t limit;
  uint32_t limit_share;
  uint32_t reserved;
  char message[128];
};
static_assert(sizeof(Says) == 160);

struct Asks {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  char group[64];
  char device[64];
  uint64_t region_bytes;
  unsigned char page[4096];
};
static_assert(sizeof(Asks) == 4248);

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
