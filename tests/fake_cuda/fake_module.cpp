// SPDX-License-Identifier: Apache-2.0
// Modules and kernels. The stand-in does not execute PTX: it knows the library's only kernel by its name, and
// does what device/inspection.hpp says.
#include <cstring>

#include "device/cuda/inspection_kernel.hpp"
#include "fake_state.hpp"

using namespace fake;
using gpupool::internal::DamageReport;
using gpupool::internal::do_look;
using gpupool::internal::Fill;
using gpupool::internal::Look;

namespace {

std::vector<Look> looks_of(const InspectionTask& task) {
  return {task.looks, task.looks + task.look_count};
}

bool is_allowed(const InspectionTask& task, int device) {
  for (const Look& look : looks_of(task)) {
    if (!is_usable(state(), device, look.address, look.size)) return false;
  }
  return is_usable(state(), device, task.fill.address, task.fill.size);
}

void inspect(const InspectionTask& task) {
  auto& report = *reinterpret_cast<DamageReport*>(task.report);
  for (const Look& look : looks_of(task))
    do_look(look, reinterpret_cast<const uint8_t*>(look.address), report);
  auto* const bytes = reinterpret_cast<uint8_t*>(task.fill.address);
  for (uint32_t i = 0; i < task.fill.size; ++i)
    bytes[i] = gpupool::internal::byte_at(task.fill.address + i, task.fill.word);
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
  InspectionTask task;
  std::memcpy(&task, parameters[0], sizeof task);
  if (task.look_count > gpupool::internal::kLooksAtOnce) return CUDA_ERROR_INVALID_VALUE;
  const bool is_one_block = grid_x == 1 && grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
  if (!is_one_block || block_x != inspection_threads(task.look_count) || shared_bytes != 0 ||
      extra != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const int device = current_context()->device;
  return queue_work(
      stream, [=] { return is_allowed(task, device); }, [=] { inspect(task); });
}

}  // extern "C"
