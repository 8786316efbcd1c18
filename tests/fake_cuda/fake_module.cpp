// SPDX-License-Identifier: Apache-2.0
// Modules and kernels. The stand-in does not execute PTX: it knows the library's only kernel by its name, and
// does what device/inspection.hpp says.
#include <algorithm>
#include <cstring>

#include "device/cuda/inspection_kernel.hpp"
#include "fake_state.hpp"

using namespace fake;
using gpupool::internal::DamageReport;
using gpupool::internal::do_look;
using gpupool::internal::Look;

namespace {

bool is_allowed(const std::vector<Look>& looks, int device) {
  return std::all_of(looks.begin(), looks.end(),
                     [&](const Look& look) { return is_usable(state(), device, look.address, look.size); });
}

void inspect(const std::vector<Look>& looks, DamageReport& report) {
  for (const Look& look : looks) do_look(look, reinterpret_cast<const uint8_t*>(look.address), report);
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
  FAKE_CALL(kContext | kNoCapture);
  auto loaded = std::make_unique<FakeModule>(FakeModule{current_context(), static_cast<const char*>(image)});
  *handle = reinterpret_cast<CUmodule>(loaded.get());
  state().modules.emplace(*handle, std::move(loaded));
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  FAKE_CALL(kContext | kNoCapture);
  return state().modules.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  FAKE_CALL(kContext);
  constexpr auto kNotFound = static_cast<CUresult>(500);
  const auto found = state().modules.find(handle);
  if (found == state().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (std::strcmp(name, kInspectionName) != 0) return kNotFound;
  if (found->second->text.find(std::string(".entry ") + name) == std::string::npos) return kNotFound;
  *function = reinterpret_cast<CUfunction>(handle);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra) {
  FAKE_CALL(kContext);
  const auto module = state().modules.find(reinterpret_cast<CUmodule>(function));
  if (module == state().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (module->second->context != current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  const bool is_one_block = grid_x == 1 && grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
  const unsigned count = block_x / inspection_threads(1);
  if (!is_one_block || block_x != inspection_threads(count) || count == 0 ||
      count > gpupool::internal::kLooksAtOnce || shared_bytes != 0 || extra != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const auto& task = *static_cast<const InspectionTask*>(parameters[0]);
  const std::vector<Look> looks(task.looks, task.looks + count);
  auto& report = *reinterpret_cast<DamageReport*>(task.report);
  const int device = current_context()->device;
  return queue_work(
      stream, [=] { return is_allowed(looks, device); }, [looks, &report] { inspect(looks, report); });
}

}  // extern "C"
