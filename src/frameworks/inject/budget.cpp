// SPDX-License-Identifier: Apache-2.0
#include "frameworks/inject/budget.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <utility>

#include "frameworks/inject/find_function.hpp"

namespace gpupool::inject {
namespace {

constexpr char kOwn = 0;  // an address in this library

std::string beside_this_library(const char* name) {
  Dl_info about{};
  if (dladdr(&kOwn, &about) == 0) return name;
  const std::string path = about.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + name;
}

}  // namespace

Budget::Budget(std::string group) : group_(std::move(group)) {
  if (group_.empty()) return;
  const std::string path = beside_this_library(GPUPOOL_LIBRARY_FILE);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!find_function(library, "gpupool_share_info", info_))
    std::fprintf(stderr, "gpupool run: no budget of a group: %s\n", dlerror());
}

uint64_t Budget::room(int device) const {
  gpupool_share_t group{};
  group.struct_size = sizeof group;
  size_t members = 0;
  if (info_(group_.c_str(), GPUPOOL_BACKEND_CUDA, device, &group, nullptr, sizeof(gpupool_share_member_t), 0,
            &members) != GPUPOOL_SUCCESS)
    return UINT64_MAX;
  return group.limit_bytes > group.used_bytes ? group.limit_bytes - group.used_bytes : 0;
}

}  // namespace gpupool::inject
