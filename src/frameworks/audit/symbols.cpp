// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/symbols.hpp"

#include <elf.h>

#include <cstdint>

namespace gpupool::audit {
namespace {

struct Tables {
  const char* names = nullptr;
  const Elf64_Sym* symbols = nullptr;
  const uint32_t* hash = nullptr;      // DT_HASH
  const uint32_t* gnu_hash = nullptr;  // DT_GNU_HASH
};

/// The loader has added the object's base to what it may write, and not to the rest.
template <typename Entry>
void read(const link_map& object, const Elf64_Dyn& part, const Entry*& to) {
  const Elf64_Addr at = part.d_un.d_ptr < object.l_addr ? part.d_un.d_ptr + object.l_addr : part.d_un.d_ptr;
  to = reinterpret_cast<const Entry*>(at);
}

Tables tables_of(const link_map& object) {
  Tables tables;
  for (const Elf64_Dyn* part = object.l_ld; part->d_tag != DT_NULL; ++part) {
    if (part->d_tag == DT_STRTAB) read(object, *part, tables.names);
    if (part->d_tag == DT_SYMTAB) read(object, *part, tables.symbols);
    if (part->d_tag == DT_HASH) read(object, *part, tables.hash);
    if (part->d_tag == DT_GNU_HASH) read(object, *part, tables.gnu_hash);
  }
  return tables;
}

bool is_it(const Tables& tables, uint32_t number, const char* name) {
  const Elf64_Sym& symbol = tables.symbols[number];
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
         std::strcmp(tables.names + symbol.st_name, name) == 0;
}

uint32_t find_gnu(const Tables& tables, const char* name) {
  uint32_t hash = 5381;
  for (const char* letter = name; *letter != '\0'; ++letter)
    hash = hash * 33 + static_cast<unsigned char>(*letter);
  const uint32_t buckets = tables.gnu_hash[0];
  const uint32_t first = tables.gnu_hash[1];
  const uint32_t filter_words = tables.gnu_hash[2];  // of 64 bits each
  const uint32_t* const bucket = tables.gnu_hash + 4 + size_t{2} * filter_words;
  const uint32_t* const chain = bucket + buckets;
  uint32_t at = buckets != 0 ? bucket[hash % buckets] : 0;
  if (at < first) return 0;
  for (;; ++at) {
    const uint32_t seen = chain[at - first];
    if ((seen | 1) == (hash | 1) && is_it(tables, at, name)) return at;
    if ((seen & 1) != 0) return 0;  // the last of its bucket
  }
}

uint32_t find_old(const Tables& tables, const char* name) {
  uint32_t hash = 0;
  for (const char* letter = name; *letter != '\0'; ++letter) {
    hash = (hash << 4) + static_cast<unsigned char>(*letter);
    hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
  }
  const uint32_t buckets = tables.hash[0];
  const uint32_t* const bucket = tables.hash + 2;
  uint32_t at = buckets != 0 ? bucket[hash % buckets] : 0;
  while (at != 0 && !is_it(tables, at, name)) at = bucket[buckets + at];
  return at;
}

}  // namespace

void* find_symbol(const link_map& object, const char* name) noexcept {
  const Tables tables = tables_of(object);
  if (tables.names == nullptr || tables.symbols == nullptr) return nullptr;
  uint32_t number = 0;
  if (tables.gnu_hash != nullptr) {
    number = find_gnu(tables, name);
  } else if (tables.hash != nullptr) {
    number = find_old(tables, name);
  }
  return number != 0 ? reinterpret_cast<void*>(object.l_addr + tables.symbols[number].st_value) : nullptr;
}

}  // namespace gpupool::audit
