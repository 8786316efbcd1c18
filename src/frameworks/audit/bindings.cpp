// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/bindings.hpp"

#include <array>
#include <atomic>
#include <iterator>
#include <string_view>

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/symbols.hpp"

namespace gpupool::audit {
namespace {

struct Hooked {
  std::string_view name;
  const char* base;  // "": cuGetProcAddress does not give it
  int since;
};

#define GPUPOOL_ROW(name, base, since, kind, arguments) {#name, #base, since},
constexpr Hooked kHooked[] = {GPUPOOL_HOOKED(GPUPOOL_ROW)};
#undef GPUPOOL_ROW
constexpr size_t kCount = std::size(kHooked);

/// A function, since an array of them would be filled by a constructor.
void* hook_at(size_t at) {
#define GPUPOOL_HOOK(name, ...) address_of(&hook::name),
  void* const hooks[] = {GPUPOOL_HOOKED(GPUPOOL_HOOK)};
#undef GPUPOOL_HOOK
  return hooks[at];
}

struct Found {
  std::atomic<void*> exported;
  std::atomic<void*> answered;  // by cuGetProcAddress
};
constinit std::array<Found, kCount> all_found{};
constinit std::atomic<bool> has_asked{false};

/// Functions of an ABI that is known: the name, with the version that brought it. Of a later version that
/// changes the arguments, the driver gives another address, and it passes. Threads that come here at once get
/// the same answers.
void ask_for_answers() {
  constexpr uint64_t kLegacy = 0;
  constexpr uint64_t kPerThread = 2;
  for (size_t at = 0; at < kCount; ++at) {
    const Hooked& each = kHooked[at];
    if (*each.base == '\0') continue;
    const uint64_t flags = each.name.ends_with("_ptsz") ? kPerThread : kLegacy;
    void* answer = nullptr;
    const int result = real.cuGetProcAddress_v2 != nullptr
                           ? real.cuGetProcAddress_v2(each.base, &answer, each.since, flags, nullptr)
                           : real.cuGetProcAddress(each.base, &answer, each.since, flags);
    if (result == CUDA_SUCCESS) all_found[at].answered = answer;
  }
  has_asked.store(true, std::memory_order_release);
}

}  // namespace

void begin_library(const link_map& object) noexcept {
#define GPUPOOL_FIND(name, ...) find_function(object, #name, real.name);
  GPUPOOL_HOOKED(GPUPOOL_FIND)
  GPUPOOL_CALLED(GPUPOOL_FIND)
#undef GPUPOOL_FIND
  for (size_t at = 0; at < kCount; ++at)
    if (void* const address = find_symbol(object, kHooked[at].name.data())) all_found[at].exported = address;
}

void end_library(const link_map& object) noexcept {
#define GPUPOOL_FORGET(name, ...) \
  if (find_symbol(object, #name) != nullptr) real.name = nullptr;
  GPUPOOL_HOOKED(GPUPOOL_FORGET)
  GPUPOOL_CALLED(GPUPOOL_FORGET)
#undef GPUPOOL_FORGET
  for (size_t at = 0; at < kCount; ++at) {
    if (find_symbol(object, kHooked[at].name.data()) == nullptr) continue;
    all_found[at].exported = nullptr;
    all_found[at].answered = nullptr;
  }
  has_asked = false;
}

void* hook_for(void* address) noexcept {
  if (address == nullptr) return address;
  for (size_t at = 0; at < kCount; ++at) {
    if (all_found[at].exported.load(std::memory_order_relaxed) == address ||
        all_found[at].answered.load(std::memory_order_relaxed) == address)
      return hook_at(at);
  }
  return address;
}

void* hook_for_answer(void* address) noexcept {
  if (!has_asked.load(std::memory_order_acquire)) ask_for_answers();
  return hook_for(address);
}

}  // namespace gpupool::audit
