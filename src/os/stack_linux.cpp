// SPDX-License-Identifier: Apache-2.0
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <atomic>

#include "os/library.hpp"
#include "os/posix.hpp"
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
  if (const UnwindFn fast = unwinder.load(std::memory_order_relaxed); fast != nullptr)
    return static_cast<size_t>(std::max(fast(frames, static_cast<int>(room)), 0));
  return unwind(frames, room);
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

}  // namespace gpupool::internal::os
