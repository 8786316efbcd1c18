// SPDX-License-Identifier: Apache-2.0
#include "watch/frame_names.hpp"

#include <cxxabi.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "os/mutex.hpp"
#include "os/stack.hpp"
#include "os/symbols.hpp"
#include "watch/rust_name.hpp"

namespace gpupool::internal {
namespace {

constinit os::Mutex symbols_mutex;
constinit os::Symbols* the_symbols = nullptr;  // created on first use, and leaked

os::Origin find_origin(const void* code) {
  os::Origin origin = os::origin_of(code);
  if (!origin.function.empty()) return origin;
  const std::lock_guard lock(symbols_mutex);
  if (the_symbols == nullptr) the_symbols = new os::Symbols;
  the_symbols->complete(origin, code);
  return origin;
}

/// As programmers write it.
std::string readable(const std::string& symbol) {
  if (std::string rust = rust_name(symbol); !rust.empty()) return rust;
  int failed = 0;
  char* demangled = ::abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &failed);
  std::string name = demangled != nullptr ? demangled : symbol;
  std::free(demangled);
  return name;
}

bool begins(std::string_view text, std::string_view with) noexcept {
  return text.substr(0, with.size()) == with;
}

/// Whether it is this C function, or a lambda in it.
bool is_of(std::string_view name, std::string_view function) noexcept {
  return begins(name, function) && (name.size() == function.size() || name[function.size()] == ':');
}

/// A function of CUDA's runtime where it is linked statically, as nvcc does by default.
bool is_of_static_runtime(std::string_view name) noexcept {
  return begins(name, "libcudart_static_") || begins(name, "cudaMalloc") || begins(name, "cudaHostAlloc");
}

/// A function of the library, of its C++ and Rust bindings, or what cgo puts in front of Go's.
bool is_own_name(std::string_view name) noexcept {
  if (begins(name, "<")) name.remove_prefix(1);
  return begins(name, "gpupool::") || is_of(name, "gpupool_malloc") ||
         is_of(name, "gpupool_malloc_aligned") || is_of(name, "gpupool_free") || begins(name, "_cgo_");
}

std::string line_of(const os::Origin& origin, std::string name, const void* code) {
  const auto offset_from = [&](uintptr_t base) {
    char number[24];
    std::snprintf(number, sizeof number, "+0x%" PRIxPTR, reinterpret_cast<uintptr_t>(code) - base);
    return std::string(number);
  };
  if (name.empty()) return (origin.module.empty() ? "?" : origin.module) + offset_from(origin.module_begin);
  constexpr size_t kLongest = 200;
  if (name.size() > kLongest) name = name.substr(0, kLongest) + "...";
  return name + offset_from(origin.function_begin) + " (" + origin.module + ")";
}

}  // namespace

bool is_of_driver(std::string_view module) noexcept {
  return begins(module, "libcuda.so") || begins(module, "libcudart.so") || begins(module, "libcupti.so");
}

std::string frame_names(const std::vector<void*>& frames) {
  std::string text;
  std::string all;  // with the library's own
  bool is_inside = true;
  for (const void* frame : frames) {
    // A return address may be the start of the next function.
    const void* const call = static_cast<const char*>(frame) - 1;
    const os::Origin origin = find_origin(call);
    const std::string name = readable(origin.function);
    const std::string line = line_of(origin, name, call) + '\n';
    is_inside = is_inside && (is_own_name(name) || is_of_driver(origin.module) || is_of_static_runtime(name));
    all += line;
    if (!is_inside) text += line;
  }
  if (text.empty()) text = all;
  if (!text.empty()) text.pop_back();
  return text;
}

void lock_frame_names() noexcept {
  symbols_mutex.lock();
}

void unlock_frame_names() noexcept {
  symbols_mutex.unlock();
}

}  // namespace gpupool::internal
