// SPDX-License-Identifier: Apache-2.0
#include "watch/stack.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/valgrind.hpp"

namespace gpupool::internal {
namespace {

constexpr size_t kFrames = 48;
constexpr size_t kFramesMax = 4096;

/// A stack as it was first seen.
struct Taken {
  std::array<void*, kFrames> frames;
  size_t count = 0;
  char text[kFramesMax];
  size_t length = 0;

  std::string_view words() const noexcept { return {text, length}; }
};

struct Kept {
  std::vector<void*> frames;
  std::string words;
  std::string description;  // once it was requested
};

/// All stacks seen so far. Stacks with equal 64-bit hashes count as equal.
struct Book {
  std::unordered_map<uint64_t, StackId> numbers;
  std::vector<Kept> stacks;
};

constinit std::mutex book_mutex;
constinit Book* the_book = nullptr;  // created on first use, and leaked

/// With its mutex. Throws std::bad_alloc.
Book& book() {
  if (the_book == nullptr) the_book = new Book;
  return *the_book;
}

struct Teller {
  std::atomic<gpupool_stack_fn_t> fn{nullptr};
  std::atomic<void*> user{nullptr};
};
constinit Teller teller;

/// The thread is inside take_stack: its allocations there have no stack.
constinit thread_local bool is_taking = false;

using UnwindFn = int (*)(void**, int);

/// Looked up once or, if several threads come first, by each of them.
template <typename Value>
struct Found {
  std::atomic<bool> is_known{false};
  std::atomic<Value> value{};

  template <typename Find>
  Value get(Find find) noexcept {
    if (!is_known.load(std::memory_order_acquire)) set(find());
    return value.load(std::memory_order_relaxed);
  }
  void set(Value found) noexcept {
    value.store(found, std::memory_order_relaxed);
    is_known.store(true, std::memory_order_release);
  }
};

/// libunwind caches what it learns about each function, so it takes a small part of the time of the
/// compiler's own unwinder (docs/watch.md). It is used if the system has it, but not under a sanitizer: it
/// releases a thread's cache under a lock when, for the thread sanitizer, that thread is already gone; and at
/// exit the leak sanitizer reports the memory of threads that have loaded it. Nor under Valgrind, which
/// reports how it tries addresses.
UnwindFn find_unwinder() noexcept {
  if (is_under_valgrind()) return nullptr;
  for (const char* sanitizer : {"__tsan_init", "__lsan_do_leak_check"}) {
    if (dlsym(RTLD_DEFAULT, sanitizer) != nullptr) return nullptr;
  }
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? reinterpret_cast<UnwindFn>(dlsym(library, "unw_backtrace")) : nullptr;
}

constinit Found<UnwindFn> unwinder;

_Unwind_Reason_Code on_frame(_Unwind_Context* context, void* to) noexcept {
  Taken& taken = *static_cast<Taken*>(to);
  const auto frame = _Unwind_GetIP(context);
  if (taken.count == kFrames || frame == 0) return _URC_END_OF_STACK;
  taken.frames[taken.count++] = reinterpret_cast<void*>(frame);
  return _URC_NO_REASON;
}

/// The address range of this library's code; empty if it is the program itself, whose frames are the user's
/// too.
struct Span {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

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

constinit std::atomic<uintptr_t> own_begin{0};
constinit Found<uintptr_t> own_bytes;

bool is_own(const void* frame) noexcept {
  const uintptr_t bytes = own_bytes.get([] {
    Span span;
    dl_iterate_phdr(find_span, &span);
    own_begin.store(span.begin, std::memory_order_relaxed);
    return span.end - span.begin;
  });
  return reinterpret_cast<uintptr_t>(frame) - own_begin.load(std::memory_order_relaxed) < bytes;
}

/// Omits the library's own frames, so that all paths through it are one call site.
void trim(Taken& taken) noexcept {
  const auto begin = taken.frames.begin();
  const auto end = begin + static_cast<ptrdiff_t>(taken.count);
  const auto first = std::find_if_not(begin, end, is_own);
  taken.count = static_cast<size_t>(std::copy(first, end, begin) - begin);
}

void take_native(Taken& taken) noexcept {
  const UnwindFn unwind = unwinder.get(find_unwinder);
  if (unwind != nullptr) {
    taken.count = static_cast<size_t>(std::max(unwind(taken.frames.data(), kFrames), 0));
  } else {
    _Unwind_Backtrace(on_frame, &taken);
  }
  trim(taken);
}

uint64_t hash_of(const Taken& taken) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15 ^ (hash >> 29); };
  for (size_t i = 0; i < taken.count; ++i) add(reinterpret_cast<uintptr_t>(taken.frames[i]));
  for (const char c : taken.words()) add(static_cast<unsigned char>(c));
  return hash;
}

/// "function+0x1c (libname.so)", or "libname.so+0x12ab" for a frame without a name.
std::string describe_frame(const void* address, const Dl_info& info) {
  char number[24];
  const char* path = info.dli_fname != nullptr ? info.dli_fname : "";
  const char* slash = std::strrchr(path, '/');
  const std::string module = slash != nullptr ? slash + 1 : path;
  const auto offset_from = [&](const void* base) {
    std::snprintf(number, sizeof number, "+0x%" PRIxPTR,
                  reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base));
    return std::string(number);
  };
  if (info.dli_sname == nullptr) return (module.empty() ? "?" : module) + offset_from(info.dli_fbase);
  int failed = 0;
  char* demangled = ::abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failed);
  std::string name = demangled != nullptr ? demangled : info.dli_sname;
  std::free(demangled);
  constexpr size_t kLongest = 200;
  if (name.size() > kLongest) name = name.substr(0, kLongest) + "...";
  return name + offset_from(info.dli_saddr) + " (" + module + ")";
}

std::string describe(const std::vector<void*>& frames, const std::string& words) {
  std::string text = words;
  for (const void* frame : frames) {
    // A return address may be the start of the next function.
    const void* call = static_cast<const char*>(frame) - 1;
    Dl_info info{};
    if (dladdr(call, &info) == 0) info = {};
    if (!text.empty()) text += '\n';
    text += describe_frame(call, info);
  }
  return text;
}

StackId remember(const Taken& taken) {
  const uint64_t hash = hash_of(taken);
  const std::lock_guard lock(book_mutex);
  Book& all = book();
  if (const auto found = all.numbers.find(hash); found != all.numbers.end()) return found->second;
  if (all.stacks.size() + 1 >= kStacks) return 0;
  // If the second of these throws, a stack remains that no hash leads to.
  all.stacks.push_back({{taken.frames.begin(), taken.frames.begin() + static_cast<ptrdiff_t>(taken.count)},
                        std::string(taken.words()),
                        {}});
  const auto number = static_cast<StackId>(all.stacks.size());
  all.numbers.emplace(hash, number);
  return number;
}

}  // namespace

void set_stack_fn(gpupool_stack_fn_t fn, void* user) noexcept {
  // In between, no function is called with the other's `user`.
  teller.fn.store(nullptr);
  teller.user.store(user);
  teller.fn.store(fn);
}

StackKinds kinds_to_take(StackKinds wanted) noexcept {
  return {wanted.native, wanted.language && teller.fn.load(std::memory_order_relaxed) != nullptr};
}

StackId take_stack(StackKinds kinds) noexcept {
  if (is_taking) return 0;
  is_taking = true;
  StackId number = 0;
  Taken taken;
  if (kinds.native) take_native(taken);
  const gpupool_stack_fn_t fn = kinds.language ? teller.fn.load() : nullptr;
  if (fn != nullptr) taken.length = std::min(fn(teller.user.load(), taken.text, kFramesMax), kFramesMax);
  while (taken.length != 0 && taken.text[taken.length - 1] == '\n') --taken.length;
  if (taken.count != 0 || taken.length != 0) {
    try {
      number = remember(taken);
    } catch (const std::bad_alloc&) {
      number = 0;
    }
  }
  is_taking = false;
  return number;
}

std::string describe_stack(StackId stack) {
  if (stack == 0) return {};
  std::unique_lock lock(book_mutex);
  Book& all = book();
  if (stack > all.stacks.size()) return {};
  if (const std::string& known = all.stacks[stack - 1].description; !known.empty()) return known;
  const std::vector<void*> frames = all.stacks[stack - 1].frames;
  const std::string words = all.stacks[stack - 1].words;
  lock.unlock();  // the loader has its own locks
  std::string text = describe(frames, words);
  lock.lock();
  all.stacks[stack - 1].description = text;
  return text;
}

std::string describe_site(StackId stack) {
  const std::string text = describe_stack(stack);
  return text.substr(0, text.find('\n'));
}

void lock_stacks() noexcept {
  book_mutex.lock();
}

void unlock_stacks() noexcept {
  book_mutex.unlock();
}

/// Threads that the child does not have may have been in libunwind, which leaves its locks to them and its
/// cache half written. The compiler's own unwinder needs only locks that fork takes care of.
void forget_unwinder() noexcept {
  unwinder.set(nullptr);
}

}  // namespace gpupool::internal
