// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "os/library.hpp"
#include "os/stack.hpp"

namespace gpupool::internal::os {
namespace {

using UnwindFn = int (*)(void**, int);

/// libunwind caches what it learns about each function, so it takes a small part of the time of the
/// compiler's own unwinder (docs/watch.md). It is used if the system has it, but not under a sanitizer: it
/// releases a thread's cache under a lock when, for the thread sanitizer, that thread is already gone; and at
/// exit the leak sanitizer reports the memory of threads that have loaded it. Nor under Valgrind, which
/// reports how it tries addresses.
UnwindFn find_unwinder(bool cautious) noexcept {
  if (cautious) return nullptr;
  for (const char* sanitizer : {"__tsan_init", "__lsan_do_leak_check"}) {
    if (find_in_process(sanitizer) != nullptr) return nullptr;
  }
  const char* reason = nullptr;
  void* const library = open_library("libunwind.so.8", reason);
  return library != nullptr ? reinterpret_cast<UnwindFn>(find_symbol(library, "unw_backtrace")) : nullptr;
}

// Looked up once or, if several threads come first, by each of them.
constinit std::atomic<bool> is_known{false};
constinit std::atomic<UnwindFn> unwinder{nullptr};

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

size_t take_frames(void** frames, size_t room, bool cautious) noexcept {
  if (!is_known.load(std::memory_order_acquire)) {
    unwinder.store(find_unwinder(cautious), std::memory_order_relaxed);
    is_known.store(true, std::memory_order_release);
  }
  if (const UnwindFn unwind = unwinder.load(std::memory_order_relaxed); unwind != nullptr)
    return static_cast<size_t>(std::max(unwind(frames, static_cast<int>(room)), 0));
  Taken taken{frames, room, 0};
  _Unwind_Backtrace(on_frame, &taken);
  return taken.count;
}

/// Threads that the child does not have may have been in libunwind, which leaves its locks to them and its
/// cache half written. The compiler's own unwinder needs only locks that fork takes care of.
void forget_unwinder() noexcept {
  unwinder.store(nullptr, std::memory_order_relaxed);
  is_known.store(true, std::memory_order_release);
}

Span own_code() noexcept {
  Span span;
  dl_iterate_phdr(find_span, &span);
  return span;
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
