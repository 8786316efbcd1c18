// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <mach-o/loader.h>

#include <cstring>

#include "os/stack.hpp"
#include "os/stack_posix.hpp"

namespace gpupool::internal::os {

void take_frames(Stack& stack, bool) noexcept {
  unwind(stack);
}

/// From the header of the module, as long as it is no program, to the end of its code.
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

}  // namespace gpupool::internal::os
