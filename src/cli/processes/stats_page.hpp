// SPDX-License-Identifier: Apache-2.0
// What a process shows of its pools, read from its page. Anybody may have written a page, so nothing in it is
// trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "wire/stats_page.hpp"

namespace gpupool::cli {

/// The page cannot be read: cut short, damaged, or of another version. Says which, in words for a user.
class PageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ShownTag {
  std::string name;
  uint64_t bytes = 0;  // estimated by samples
};

/// Names and texts may hold any bytes.
struct ShownPool : wire::stats::Counts {
  uint64_t number = 0;
  uint32_t backend = 0;
  int32_t device = 0;
  bool is_child = false;
  bool is_asleep = false;
  bool runs_alone = false;
  uint64_t shown_ns = 0;  // CLOCK_MONOTONIC
  std::string device_id;
  std::string name;
  std::string group;
  std::vector<ShownTag> tags;
  bool is_hidden = false;  // not asked for, but counted in its process's figures
};

struct StatsPage {
  uint64_t process = 0;  // as its own namespace numbers it
  std::string version;
  uint64_t not_shown = 0;  // pools that found no slot
  uint64_t busy = 0;       // pools that were written whenever they were read
  std::vector<ShownPool> pools;
};

/// Copies bytes of a page; false if there are fewer.
using ReadPage = std::function<bool(uint64_t offset, void* to, size_t bytes)>;

/// Throws PageError.
StatsPage read_stats_page(const ReadPage& read);

}  // namespace gpupool::cli
