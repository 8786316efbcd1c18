// SPDX-License-Identifier: Apache-2.0
// The shim in a process with PyTorch's own libraries, where there is no GPU: probe SHIM.
// tools/torch_matrix.py compiles this against each release of PyTorch; it ends with 0 if the shim answers as
// its headers say.
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace c10::cuda;  // NOLINT: a short program about it

void check(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

template <typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

}  // namespace

int main(int, char** arguments) {
  void* shim = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (shim == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  check(shim != nullptr, "it can be loaded");
  auto* install = reinterpret_cast<int (*)()>(dlsym(shim, "gpupool_torch_install"));
  check(install != nullptr && install() == 0, "it becomes the allocator");
  check(install() == 0, "and stays it");
  check(CUDACachingAllocator::name() == "gpupool", "its name");
  check(c10::GetAllocator(c10::DeviceType::CUDA) == CUDACachingAllocator::get(), "all of PyTorch sees it");
  check(!CUDACachingAllocator::get()->initialized(), "no GPU was used");

  // Functions from all over the table of virtual ones, and structs that come back by value.
  check(CUDACachingAllocator::isEnabled(), "its cache is on");
  CUDACachingAllocator::enable(false);
  check(!CUDACachingAllocator::isEnabled(), "its cache is off");
  check(!CUDACachingAllocator::isHistoryEnabled(), "no history");
  const auto stats = CUDACachingAllocator::getDeviceStats(0);
  check(stats.max_split_size == -1 && stats.num_ooms == 0 && stats.requested_bytes[0].peak == 0,
        "statistics");
  check(CUDACachingAllocator::snapshot().config_metadata.last_allocator_settings.rfind("backend:gpupool",
                                                                                       0) == 0,
        "the settings in a snapshot");
  CUDACachingAllocator::emptyCache();
  CUDACachingAllocator::endAllocateToPool(0, {0, 1});
  check(CUDACachingAllocator::getPoolUseCount(0, {0, 1}) == 0, "no pools");
  check(message_of([] { CUDACachingAllocator::get()->getIpcDevPtr("nothing"); }) != "",
        "refusals reach PyTorch");
  std::quick_exit(0);  // as a program that PyTorch's own libraries were not all loaded into
}
