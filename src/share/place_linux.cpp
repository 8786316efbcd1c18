// SPDX-License-Identifier: Apache-2.0
// Where a region is, by its names.
#include <unistd.h>

#include <cerrno>
#include <string>

#include "share/region_linux.hpp"

namespace gpupool::internal::share {
namespace {

std::string folder_of(const Place& place) {
  return place.folder.empty() ? "/dev/shm/gpupool-" + std::to_string(geteuid()) : place.folder;
}

}  // namespace

std::string Place::path() const {
  return (socket.empty() ? folder_of(*this) + "/" : socket + ":") + group + "." + device;
}

Names::Names(const Place& place)
    : folder_(folder_of(place)),
      file_(place.group + "." + place.device),
      path_(place.path()),
      spot_{folder_.c_str(),      place.folder.empty(), file_.c_str(), path_.c_str(),
            place.device.c_str(), place.device_bytes,   place.limit} {}

Status open_region(const Place& place, bool makes, File& file) {
  return open_region(Names(place).spot(), makes, file);
}

Status unusable(const Place& place, const char* what) {
  return unusable(Names(place).spot(), what);
}

Status failed(const Place& place, const char* call) {
  const int error = errno;
  const Names names(place);
  errno = error;
  return failed(names.spot(), call);
}

void write_header(const Place& place, Header& header) {
  write_header(Names(place).spot(), header);
}

Status check_contents(const Place& place, const File& file) {
  return check_contents(Names(place).spot(), file);
}

}  // namespace gpupool::internal::share
