// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <mach-o/loader.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>

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

size_t take_frames(void** frames, size_t room, bool) noexcept {
  Taken taken{frames, room, 0};
  _Unwind_Backtrace(on_frame, &taken);
  return taken.count;
}

/// From the header of the module, as long as it is no program, to the end of its code.
void forget_unwinder() noexcept {}

Span own_code() noexcept {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&own_code), &self) == 0) return {};
  const auto* const head = static_cast<const mach_header_64*>(self.dli_fbase);
  if (head->filetype == MH_EXECUTE) return {};
  const auto begin = reinterpret_cast<uintptr_t>(head);
  const auto* command = reinterpret_cast<const load_command*>(head + 1);
  for (uint32_t i = 0; i < head->ncmds; ++i) {
    if (command->cmd == LC_SEGMENT_64) {
      const auto* const segment = reinterpret_cast<const segment_command_64*>(command);
      if (std::strcmp(segment->segname, "__TEXT") == 0) return {begin, begin + segment->vmsize};
    }
    command =
        reinterpret_cast<const load_command*>(reinterpret_cast<const char*>(command) + command->cmdsize);
  }
  return {};
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
