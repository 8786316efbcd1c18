// SPDX-License-Identifier: Apache-2.0
#include "base/valgrind.hpp"

namespace gpupool::internal {

/// Valgrind knows a request by instructions that change nothing on a real processor, so that neither its
/// header nor its library is needed.
uint64_t ask_valgrind(const ValgrindRequest& request) noexcept {
  const uint64_t* words = request.data();
#if defined(__x86_64__)
  uint64_t answer = 0;
  __asm__ volatile(
      "rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(words)
      : "cc", "memory");
  return answer;
#elif defined(__aarch64__)
  register uint64_t answer __asm__("x3") = 0;
  register const uint64_t* asked __asm__("x4") = words;
  __asm__ volatile(
      "ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\torr x10, x10, x10"
      : "+r"(answer)
      : "r"(asked)
      : "cc", "memory");
  return answer;
#else
  (void)words;
  return 0;
#endif
}

bool is_under_valgrind() noexcept {
  constexpr uint64_t kRunningOnValgrind = 0x1001;
  return ask_valgrind({kRunningOnValgrind}) != 0;
}

}  // namespace gpupool::internal
