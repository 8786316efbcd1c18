// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <unwind.h>

#include <cstring>

#include "os/posix.hpp"
#include "os/stack.hpp"

namespace gpupool::internal::os {
namespace {

struct Taken {
  void** frames;
  size_t room;
  size_t count;
};

_Unwind_Reason_Code on_frame(_Unwind_Context* context, void* to) noexcept {
  Taken& taken = *static_cast<Taken*>(to);
  const auto frame = _Unwind_GetIP(context);
  if (taken.count == taken.room || frame == 0) return _URC_END_OF_STACK;
  taken.frames[taken.count++] = reinterpret_cast<void*>(frame);
  return _URC_NO_REASON;
}

}  // namespace

size_t unwind(void** frames, size_t room) noexcept {
  Taken taken{frames, room, 0};
  _Unwind_Backtrace(on_frame, &taken);
  return taken.count;
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
