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
  std::string device;  // "sim:0"; or what the file calls it, if this process has no such device
  std::string path;
  std::string why_closed;  // not "": why it cannot be read
  ShareInfo info{};
};

/// The groups that have a region in the folder of regions, by file name. Only those of `group` and `device`,
/// if these are not "". A broker is asked for one group, which must be named. Throws InputError if there is
/// no such device, or a broker does not answer.
std::vector<FoundGroup> find_groups(const std::string& group, const std::string& device);

/// The folder of regions, or the broker's socket, whether it exists or not.
std::string place_of_regions();

void print_group(const FoundGroup& group);
void print_group_as_json(const FoundGroup& group);

}  // namespace gpupool::cli
