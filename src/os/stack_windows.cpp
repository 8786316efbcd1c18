// SPDX-License-Identifier: Apache-2.0
// Frames are named by their module and place: names of functions are in files beside it, which other tools
// read.
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <array>
#include <cstring>

#include "os/stack.hpp"

namespace gpupool::internal::os {
namespace {

HMODULE module_of(const void* code) noexcept {
  HMODULE module = nullptr;
  const bool is_found = GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                               GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                                           static_cast<LPCSTR>(code), &module) != 0;
  return is_found ? module : nullptr;
}

}  // namespace

void take_frames(Stack& stack, bool) noexcept {
  stack.count = CaptureStackBackTrace(0, kFrames, stack.frames.data(), nullptr);
}

Span own_code() noexcept {
  const auto module = reinterpret_cast<uintptr_t>(module_of(reinterpret_cast<const void*>(&own_code)));
  if (module == 0 || module == reinterpret_cast<uintptr_t>(GetModuleHandleA(nullptr))) return {};
  const auto* dos = reinterpret_cast<const IMAGE_DOS_HEADER*>(module);
  const auto* head =
      reinterpret_cast<const IMAGE_NT_HEADERS*>(module + static_cast<uintptr_t>(dos->e_lfanew));
  return {module, module + head->OptionalHeader.SizeOfImage};
}

Origin origin_of(const void* code) {
  const HMODULE module = module_of(code);
  if (module == nullptr) return {};
  std::array<char, MAX_PATH> path{};
  (void)GetModuleFileNameA(module, path.data(), static_cast<DWORD>(path.size()) - 1);
  const char* const slash = std::strrchr(path.data(), '\\');
  return {"", slash != nullptr ? slash + 1 : path.data(), 0, reinterpret_cast<uintptr_t>(module)};
}

}  // namespace gpupool::internal::os
