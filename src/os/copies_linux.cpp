// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>

#include <new>
#include <vector>

#include "os/library.hpp"

namespace gpupool::internal::os {
namespace {

int add_name(dl_phdr_info* module, size_t, void* names) noexcept {
  try {
    static_cast<std::vector<std::string>*>(names)->emplace_back(module->dlpi_name);
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

struct Module {
  const void* base = nullptr;
  std::string file;
};

Module module_of(const void* address) {
  Dl_info found{};
  if (address == nullptr || dladdr(address, &found) == 0 || found.dli_fname == nullptr) return {};
  return {found.dli_fbase, found.dli_fname};
}

}  // namespace

/// A module also answers for those that it needs; so what counts is where the function lies.
bool find_other_copy(const char* name, const void* own, std::string& own_file, std::string& file) noexcept {
  try {
    const Module mine = module_of(own);
    std::vector<std::string> names;
    (void)dl_iterate_phdr(add_name, &names);
    for (const std::string& each : names) {
      // The program itself has no name here.
      void* const opened = dlopen(each.empty() ? nullptr : each.c_str(), RTLD_LAZY | RTLD_NOLOAD);
      if (opened == nullptr) continue;
      const Module other = module_of(dlsym(opened, name));
      (void)dlclose(opened);
      if (other.base == nullptr || other.base == mine.base) continue;
      own_file = mine.file;
      file = other.file;
      return true;
    }
  } catch (const std::bad_alloc&) {
    // Then it is not found.
  }
  return false;
}

}  // namespace gpupool::internal::os
