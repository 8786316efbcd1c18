// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <unwind.h>

#include <cstring>

#include "os/stack.hpp"
#include "os/stack_posix.hpp"

namespace gpupool::internal::os {
namespace {

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) noexcept {
  Stack& stack = *static_cast<Stack*>(to);
  const auto frame = _Unwind_GetIP(context);
  if (stack.count == kFrames || frame == 0) return _URC_END_OF_STACK;
  stack.frames[stack.count++] = reinterpret_cast<void*>(frame);
  return _URC_NO_REASON;
}

}  // namespace

void unwind(Stack& stack) noexcept {
  stack.count = 0;
  _Unwind_Backtrace(add_frame, &stack);
}

Origin origin_of(const void* code) {
  Dl_info info{};
  if (dladdr(code, &info) == 0) return {};
  const char* path = info.dli_fname != nullptr ? info.dli_fname : "";
  const char* slash = std::strrchr(path, '/');
  return {info.dli_sname != nullptr ? info.dli_sname : "", slash != nullptr ? slash + 1 : path,
          reinterpret_cast<uintptr_t>(info.dli_saddr), reinterpret_cast<uintptr_t>(info.dli_fbase)};
}

}  // namespace gpupool::internal::os
