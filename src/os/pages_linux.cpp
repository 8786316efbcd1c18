// SPDX-License-Identifier: Apache-2.0
#include "os/pages.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // of Linux 5.14; glibc before 2.35 does not name it
#endif

namespace gpupool::internal::os {
namespace {

using Clock = std::chrono::steady_clock;

/// Two huge pages. A host in fragments may take a second to clear the way for one.
constexpr size_t kPart = size_t{4} << 20;
constexpr std::chrono::milliseconds kSlow{20};  // for a part, which takes about one

/// Whether huge pages came slowly. Then the process asks for no more.
std::atomic<bool> huge_is_slow{false};

/// Several threads' pages may be touched wherever there is a processor free; they shall lie together.
void prefer_this_node(void* address, size_t bytes) noexcept {
  int policy = MPOL_DEFAULT;
  unsigned cpu = 0;
  unsigned node = 0;
  std::array<unsigned long, 16> nodes{};
  constexpr unsigned kBits = sizeof(unsigned long) * CHAR_BIT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT) return;
  if (syscall(SYS_getcpu, &cpu, &node, nullptr) != 0 || node >= nodes.size() * kBits) return;
  nodes[node / kBits] = 1UL << node % kBits;
  (void)syscall(SYS_mbind, address, bytes, MPOL_PREFERRED, nodes.data(), nodes.size() * kBits, 0);
}

bool touch(char* at, size_t bytes) noexcept {
  if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // no memory
  constexpr size_t kSmallestPage = 4096;
  for (size_t offset = 0; offset < bytes; offset += kSmallestPage)
    static_cast<volatile char*>(at)[offset] = 0;
  return true;
}

}  // namespace

void* map_untouched(size_t bytes) noexcept {
  void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void* map_pages(size_t bytes) noexcept {
  void* const address = map_untouched(bytes);
  if (address == nullptr) return nullptr;
  bool is_huge = !huge_is_slow.load(std::memory_order_relaxed) && madvise(address, bytes, MADV_HUGEPAGE) == 0;
  (void)madvise(address, bytes, MADV_DONTDUMP);
  prefer_this_node(address, bytes);
  bool is_there = madvise(address, bytes, MADV_DONTFORK) == 0;
  for (size_t done = 0; done < bytes && is_there; done += kPart) {
    char* const part = static_cast<char*>(address) + done;
    const Clock::time_point start = Clock::now();
    is_there = touch(part, std::min(kPart, bytes - done));
    if (!is_huge || Clock::now() - start < kSlow) continue;
    huge_is_slow.store(true, std::memory_order_relaxed);
    is_huge = false;
    (void)madvise(part, bytes - done, MADV_NOHUGEPAGE);
  }
  if (is_there) return address;
  munmap(address, bytes);
  return nullptr;
}

void unmap_pages(void* address, size_t bytes) noexcept {
  munmap(address, bytes);
}

}  // namespace gpupool::internal::os
