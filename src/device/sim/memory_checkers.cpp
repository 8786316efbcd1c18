// SPDX-License-Identifier: Apache-2.0
#include "device/sim/memory_checkers.hpp"

#include "base/valgrind.hpp"
#include "os/library.hpp"

namespace gpupool::internal {
namespace {

// Valgrind's numbers for requests of a program to it; part of its interface, as its manual says. Memcheck's
// own begin with its letters.
constexpr uint64_t kMallocLikeBlock = 0x1301;
constexpr uint64_t kFreeLikeBlock = 0x1302;
constexpr uint64_t kMemcheck = uint64_t{'M'} << 24 | uint64_t{'C'} << 16;
constexpr uint64_t kMakeNoAccess = kMemcheck;
constexpr uint64_t kMakeDefined = kMemcheck + 2;

const volatile void* watched_pointer(Address address) noexcept {
  return reinterpret_cast<const volatile void*>(address);
}

}  // namespace

MemoryCheckers::MemoryCheckers() noexcept
    : poison_(reinterpret_cast<RegionFn*>(os::find_in_process("__asan_poison_memory_region"))),
      unpoison_(reinterpret_cast<RegionFn*>(os::find_in_process("__asan_unpoison_memory_region"))),
      under_valgrind_(is_under_valgrind()) {
  if (unpoison_ == nullptr) poison_ = nullptr;
}

void MemoryCheckers::close(Address address, uint64_t size) const noexcept {
  if (poison_ != nullptr) poison_(watched_pointer(address), size);
  if (under_valgrind_) ask_valgrind({kMakeNoAccess, address, size});
}

void MemoryCheckers::open(Address address, uint64_t size) const noexcept {
  if (poison_ != nullptr) unpoison_(watched_pointer(address), size);
  written(address, size);
}

void MemoryCheckers::written(Address address, uint64_t size) const noexcept {
  if (under_valgrind_) ask_valgrind({kMakeDefined, address, size});
}

void MemoryCheckers::begin_block(Address address, uint64_t size) const noexcept {
  // No bytes around it are its own, and nobody has filled it with zeros: the two words that follow are 0.
  if (under_valgrind_) ask_valgrind({kMallocLikeBlock, address, size});
}

void MemoryCheckers::end_block(Address address) const noexcept {
  if (under_valgrind_) ask_valgrind({kFreeLikeBlock, address});
}

}  // namespace gpupool::internal
