// SPDX-License-Identifier: Apache-2.0
// Debug modes and their findings.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "abi/call.hpp"
#include "abi/structs.hpp"
#include "pool/rules/debug_modes.hpp"

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

extern "C" {

gpupool_status_t gpupool_set_debug(const char* modes) {
  return guarded([&] {
    if (modes == nullptr) {
      unset_debug_modes();
      return kSuccess;
    }
    DebugModes found;
    const Status status = parse_debug_modes("modes", modes, found);
    if (status == kSuccess) set_debug_modes(found);
    return status;
  });
}

gpupool_status_t gpupool_check(gpupool_t* pool, uint64_t* out_count, char* text, size_t capacity) {
  if (const Status status = expect_text(text, capacity, out_count); status != kSuccess) return status;
  return on_pool(pool, [&](Pool& self) {
    uint64_t count = 0;
    std::string words;
    if (const Status status = self.check(count, words); status != kSuccess) return status;
    if (out_count != nullptr) *out_count = count;
    return give_text(words, text, capacity);
  });
}

gpupool_status_t gpupool_protect(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_access_t access) {
  if (access < GPUPOOL_ACCESS_WRITE || access > GPUPOOL_ACCESS_NONE) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "access is %d, not 0 (write), 1 (read) or 2 (none)",
                static_cast<int>(access));
  }
  return call(pool, &Pool::protect, ptr, static_cast<Permission>(access));
}

gpupool_status_t gpupool_why(gpupool_ptr_t address, char* text, size_t capacity, size_t* out_length) {
  if (const Status status = expect_text(text, capacity, out_length); status != kSuccess) return status;
  return guarded([&] {
    int surest = 0;
    char nothing[96];
    std::snprintf(nothing, sizeof nothing, "0x%" PRIx64 " is not in any pool of this process\n", address);
    std::string best = nothing;
    for (const auto& pool : Registry::instance().all()) {
      if (!pool->is_live()) continue;
      std::string words;
      const int sureness = pool->explain(address, words);
      if (sureness <= surest) continue;
      surest = sureness;
      best = words;
    }
    return give_text(best, text, capacity, out_length);
  });
}

}  // extern "C"
