// SPDX-License-Identifier: Apache-2.0
#include <link.h>
#include <sys/auxv.h>

#include "os/stack.hpp"
#include "os/stack_posix.hpp"

namespace gpupool::internal::os {
namespace {

int find_span(dl_phdr_info* info, size_t size, void* to) noexcept {
  (void)size;
  Span found;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (found.end == 0) found.begin = begin;
    found.end = begin + part.p_memsz;
  }
  const auto here = reinterpret_cast<uintptr_t>(&find_span);
  const uintptr_t entry = getauxval(AT_ENTRY);
  if (here - found.begin >= found.end - found.begin) return 0;
  if (entry - found.begin >= found.end - found.begin) *static_cast<Span*>(to) = found;
  return 1;
}

}  // namespace

/// What take_again starts from is this function's own frame, so nothing may take its place: no tail call.
[[gnu::noinline]] void take_frames(Stack& stack, bool cautious) noexcept {
  if (cautious) return unwind(stack);
  take_again(static_cast<const uintptr_t*>(__builtin_frame_address(0)), stack);
  asm volatile("" ::: "memory");
}

Span own_code() noexcept {
  Span span;
  dl_iterate_phdr(find_span, &span);
  return span;
}

}  // namespace gpupool::internal::os
