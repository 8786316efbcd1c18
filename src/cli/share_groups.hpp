// SPDX-License-Identifier: Apache-2.0
// Which groups of processes there are, and what they show.
#pragma once

#include <string>
#include <vector>

#include "gpupool/share.hpp"

namespace gpupool::cli {

/// A group on a device, as its region's file shows it.
struct FoundGroup {
  std::string name;
  std::string device;  // "sim:0"; what the file calls it, where that is no device of this process
  std::string path;
  std::string why_closed;  // not "": it cannot be looked into
  ShareInfo info{};
};

/// The groups that have a region in the folder of regions, by file name. `group` and `device`, where they are
/// not "": only those. Throws InputError where the device is none.
std::vector<FoundGroup> find_groups(const std::string& group, const std::string& device);

/// The folder of regions, whether it is there or not.
std::string folder_of_regions();

void print_group(const FoundGroup& group);
void print_group_as_json(const FoundGroup& group);

}  // namespace gpupool::cli
