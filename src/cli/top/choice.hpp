// SPDX-License-Identifier: Apache-2.0
// Which pools `gpupool top` shows, in which order.
#pragma once

#include <string>
#include <vector>

#include "cli/processes/processes.hpp"

namespace gpupool::cli {

struct TopChoice {
  // "": any.
  std::string name;    // in the pool's name
  std::string tag;     // in the name of one of its tags
  std::string user;    // the user's name or number
  std::string device;  // as the table has it ("sim:0"), its backend ("sim"), or in the device's UUID
  std::string text;    // in any of these, the command or the process's number
  std::string sort = "reserved";

  bool is_all() const noexcept {
    return name.empty() && tag.empty() && user.empty() && device.empty() && text.empty();
  }
};

/// A pool in its process.
struct TopRow {
  const ShownProcess* process = nullptr;
  size_t page = 0;
  const ShownPool* pool = nullptr;
};

/// The names of orders, as --sort takes them.
std::vector<std::string> top_orders();

/// The order after that one, or before it, in a ring.
std::string next_order(const std::string& order, bool is_forward);

/// "sim:0".
std::string device_of(const ShownPool& pool);

/// Hides pools that were not asked for, and drops processes that have none left.
void keep_chosen(std::vector<ShownProcess>& processes, const TopChoice& choice);

/// All pools that are not hidden, in the given order: largest first, except numbers and names.
std::vector<TopRow> rows_in_order(const std::vector<ShownProcess>& processes, const std::string& order);

}  // namespace gpupool::cli
