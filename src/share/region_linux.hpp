// SPDX-License-Identifier: Apache-2.0
// What files of regions have in common, whether a folder has them or a broker.
#pragma once

#include <string>

#include "share/region.hpp"

namespace gpupool::internal::share {

/// A Place without memory of its own, for libgpupool_audit, which may not allocate.
struct Spot {
  const char* folder;
  bool is_folder_own;  // of this user only, and made if missing
  const char* file;    // in the folder
  const char* path;    // for messages
  const char* device;
  uint64_t device_bytes;
  uint64_t limit;
};

/// What a Spot points to.
class Names {
 public:
  explicit Names(const Place& place);
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  const Spot& spot() const noexcept { return spot_; }

 private:
  const std::string folder_;
  const std::string file_;
  const std::string path_;
  const Spot spot_;
};

/// As for a Place.
Status open_region(const Spot& place, bool makes, File& file);

/// UNAVAILABLE: the region is, or does, what the words say.
Status unusable(const Spot& place, const char* what);
Status unusable(const Place& place, const char* what);
/// UNAVAILABLE: a system call has failed, with errno.
Status failed(const Spot& place, const char* call);
Status failed(const Place& place, const char* call);

/// What a new region begins with.
void write_header(const Spot& place, Header& header) noexcept;
void write_header(const Place& place, Header& header);
/// Checks the size, and what it begins with.
Status check_contents(const Spot& place, const File& file);
Status check_contents(const Place& place, const File& file);

}  // namespace gpupool::internal::share
