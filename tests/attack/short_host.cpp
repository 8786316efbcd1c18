// SPDX-License-Identifier: Apache-2.0
#include "attack/short_host.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace attack {
namespace {

constexpr int kFrames = 12;

struct Countdown {
  bool armed = false;
  bool reached = false;
  bool goes_on = false;
  uint64_t left = 0;
};
constinit thread_local Countdown countdown;

/// Where the file that has an address begins in memory.
const void* file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

const void* file_with(const char* symbol) {
  return file_of(dlsym(RTLD_DEFAULT, symbol));
}

/// Whether one of our libraries allocates: the innermost caller that is neither this program nor the C++
/// library.
bool is_ours() {
  static const void* const library = file_with("gpupool_malloc");
  static const void* const torch = file_with("gpupool_torch_alloc");  // null in programs without it
  static const void* const runtime = file_with("_ZSt9terminatev");
  static const void* const program = file_of(reinterpret_cast<const void*>(&fail_allocation));
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  for (int i = 0; i < count; ++i) {
    const void* const file = file_of(frames[i]);
    if (file != runtime && file != program) return file != nullptr && (file == library || file == torch);
  }
  return false;
}

/// Whether this allocation is the one that fails.
bool fails() {
  if (!countdown.armed) return false;
  countdown.armed = false;  // what is called here may allocate
  const bool counts = is_ours();
  countdown.armed = true;
  if (!counts) return false;
  if (countdown.left != 0) {
    --countdown.left;
    return false;
  }
  countdown.armed = countdown.goes_on;
  countdown.reached = true;
  return true;
}

void* take(size_t size, size_t alignment) {
  if (fails()) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(size);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

void* take_or_throw(size_t size, size_t alignment) {
  void* const memory = take(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void fail_allocation(uint64_t number) {
  (void)is_ours();  // the first backtrace loads a library
  countdown = {true, false, false, number};
}

void fail_from_allocation(uint64_t number) {
  fail_allocation(number);
  countdown.goes_on = true;
}

bool stop_failing() {
  countdown.armed = false;
  return countdown.reached;
}

}  // namespace attack

using attack::take;
using attack::take_or_throw;
using Alignment = std::align_val_t;

void* operator new(size_t size) {
  return take_or_throw(size, 0);
}
void* operator new[](size_t size) {
  return take_or_throw(size, 0);
}
void* operator new(size_t size, Alignment alignment) {
  return take_or_throw(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, Alignment alignment) {
  return take_or_throw(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return take(size, 0);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return take(size, 0);
}
void* operator new(size_t size, Alignment alignment, const std::nothrow_t&) noexcept {
  return take(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, Alignment alignment, const std::nothrow_t&) noexcept {
  return take(size, static_cast<size_t>(alignment));
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, Alignment) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, Alignment) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, Alignment) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, Alignment) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, Alignment, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, Alignment, const std::nothrow_t&) noexcept {
  std::free(memory);
}
