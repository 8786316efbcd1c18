// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/relocations.hpp"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "frameworks/audit/bindings.hpp"

namespace gpupool::audit {
namespace {

#if defined(__aarch64__)
constexpr uint64_t kOfData[] = {R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
#else
constexpr uint64_t kOfData[] = {R_X86_64_GLOB_DAT, R_X86_64_64};
#endif

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool has(uintptr_t address) const { return address >= begin && address < end; }
};

/// What the loader has made read-only once it was relocated.
Range find_read_only(const link_map& object) {
  const auto* headers = reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR));
  uint64_t count = getauxval(AT_PHNUM);
  if (*object.l_name != '\0') {  // not the program itself
    const auto* const header = reinterpret_cast<const Elf64_Ehdr*>(object.l_addr);
    headers = reinterpret_cast<const Elf64_Phdr*>(object.l_addr + header->e_phoff);
    count = header->e_phnum;
  }
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (uint64_t at = 0; at < count; ++at) {
    if (headers[at].p_type != PT_GNU_RELRO) continue;
    const uintptr_t begin = object.l_addr + headers[at].p_vaddr;
    return {begin / page * page, (begin + headers[at].p_memsz) / page * page};
  }
  return {};
}

bool is_of_data(uint64_t type) {
  return type == kOfData[0] || type == kOfData[1];
}

}  // namespace

void hook_data(const link_map& object) noexcept {
  uintptr_t table = 0;
  uint64_t bytes = 0;
  for (const Elf64_Dyn* part = object.l_ld; part->d_tag != DT_NULL; ++part) {
    if (part->d_tag == DT_RELA) table = part->d_un.d_ptr;
    if (part->d_tag == DT_RELASZ) bytes = part->d_un.d_val;
  }
  if (table == 0) return;
  if (table < object.l_addr) table += object.l_addr;
  const auto* const entries = reinterpret_cast<const Elf64_Rela*>(table);
  Range read_only;
  for (uint64_t at = 0; at < bytes / sizeof *entries; ++at) {
    if (!is_of_data(ELF64_R_TYPE(entries[at].r_info)) || ELF64_R_SYM(entries[at].r_info) == 0) continue;
    auto** const to = reinterpret_cast<void**>(object.l_addr + entries[at].r_offset);
    void* const hook = hook_for(*to);
    if (hook == *to) continue;
    if (read_only.end == 0) read_only = find_read_only(object);
    const bool is_locked = read_only.has(reinterpret_cast<uintptr_t>(to));
    auto* const pages = reinterpret_cast<void*>(read_only.begin);
    const size_t length = read_only.end - read_only.begin;
    if (is_locked && mprotect(pages, length, PROT_READ | PROT_WRITE) != 0) continue;
    *to = hook;
    if (is_locked) (void)mprotect(pages, length, PROT_READ);
  }
}

}  // namespace gpupool::audit
