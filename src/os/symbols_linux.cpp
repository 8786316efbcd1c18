// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "os/symbols.hpp"

namespace gpupool::internal::os {
namespace {

/// Files whose lists are larger are not read: names in a failure's message are not worth more memory.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

// ---- the module, as it was loaded

struct Loaded {
  uintptr_t code;
  char path[4096];  // empty: no module has the code
  uintptr_t offset;
  std::array<uint8_t, sizeof(ElfW(Ehdr))> head;  // what its file began with
};

int find_module(dl_phdr_info* info, size_t size, void* to) noexcept {
  (void)size;
  Loaded& loaded = *static_cast<Loaded*>(to);
  const void* head = nullptr;
  bool has_code = false;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    has_code = has_code || loaded.code - begin < part.p_memsz;
    if (part.p_offset == 0 && part.p_filesz >= loaded.head.size())
      head = reinterpret_cast<const void*>(begin);
  }
  if (!has_code) return 0;
  if (head == nullptr) return 1;
  const bool is_program = info->dlpi_name == nullptr || info->dlpi_name[0] == '\0';
  const char* const path = is_program ? "/proc/self/exe" : info->dlpi_name;
  const size_t length = std::strlen(path);
  if (length >= sizeof loaded.path) return 1;
  std::memcpy(loaded.path, path, length + 1);
  std::memcpy(loaded.head.data(), head, loaded.head.size());
  loaded.offset = info->dlpi_addr;
  return 1;
}

// ---- its file

class File {
 public:
  explicit File(const char* path) noexcept : descriptor_(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat found {};
    if (descriptor_ >= 0 && ::fstat(descriptor_, &found) == 0 && S_ISREG(found.st_mode))
      bytes_ = static_cast<uint64_t>(found.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  /// False: the file has no such bytes.
  bool read(uint64_t offset, void* to, uint64_t bytes) const noexcept {
    if (offset > bytes_ || bytes > bytes_ - offset) return false;
    auto* at = static_cast<char*>(to);
    while (bytes != 0) {
      const ssize_t got = ::pread(descriptor_, at, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
    return true;
  }

  /// Nothing is allocated for more than the file has.
  template <typename List>
  bool read_all(const ElfW(Shdr) & section, List& to) const {
    if (section.sh_offset > bytes_ || section.sh_size > bytes_ - section.sh_offset) return false;
    if (section.sh_size > kMostBytes) return false;
    to.resize(section.sh_size / sizeof(typename List::value_type));
    return read(section.sh_offset, to.data(), to.size() * sizeof(typename List::value_type));
  }

 private:
  int descriptor_;
  uint64_t bytes_ = 0;
};

/// The list of symbols and that of their names.
struct Sections {
  ElfW(Shdr) symbols;
  ElfW(Shdr) names;
};

std::optional<Sections> find_sections(const File& file, const ElfW(Ehdr) & head) {
  std::vector<ElfW(Shdr)> all;
  ElfW(Shdr) table{};
  table.sh_offset = head.e_shoff;
  table.sh_size = head.e_shnum * sizeof(ElfW(Shdr));
  if (head.e_shentsize != sizeof(ElfW(Shdr)) || !file.read_all(table, all)) return {};
  const auto found =
      std::find_if(all.begin(), all.end(), [](const auto& each) { return each.sh_type == SHT_SYMTAB; });
  if (found == all.end() || found->sh_link >= all.size()) return {};
  return Sections{*found, all[found->sh_link]};
}

}  // namespace

/// Leaves the lists empty if they are not there, or not as they should be.
void Symbols::read(Module& module, const void* head) {
  const File file(module.path.c_str());
  ElfW(Ehdr) found;
  if (!file.read(0, &found, sizeof found) || std::memcmp(&found, head, sizeof found) != 0) return;
  const auto sections = find_sections(file, found);
  std::vector<ElfW(Sym)> symbols;
  if (!sections || !file.read_all(sections->symbols, symbols) ||
      !file.read_all(sections->names, module.names))
    return;
  for (const ElfW(Sym) & each : symbols) {
    const int type = ELF64_ST_TYPE(each.st_info);  // the same for 32 bits
    const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!is_function || each.st_shndx == SHN_UNDEF || each.st_name >= module.names.size()) continue;
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(each.st_size, UINT32_MAX));
    module.functions.push_back({each.st_value, bytes, each.st_name});
  }
  module.functions.shrink_to_fit();
  // Of several at the same place, the largest counts: some are only labels.
  std::sort(module.functions.begin(), module.functions.end(), [](const Function& a, const Function& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
  });
}

const Symbols::Module& Symbols::know(const std::string& path, uintptr_t offset, const void* head) {
  const auto known = std::find_if(modules_.begin(), modules_.end(), [&](const Module& each) {
    return each.offset == offset && each.path == path;
  });
  if (known != modules_.end()) return *known;
  Module module{path, offset, {}, {}};
  read(module, head);
  return modules_.emplace_back(std::move(module));
}

void Symbols::complete(Origin& origin, const void* code) {
  if (!origin.function.empty()) return;
  Loaded loaded;
  loaded.code = reinterpret_cast<uintptr_t>(code);
  loaded.path[0] = '\0';
  dl_iterate_phdr(find_module, &loaded);
  if (loaded.path[0] == '\0') return;
  const Module& module = know(loaded.path, loaded.offset, loaded.head.data());
  const uintptr_t place = loaded.code - loaded.offset;
  const auto behind = std::upper_bound(module.functions.begin(), module.functions.end(), place,
                                       [](uintptr_t at, const Function& each) { return at < each.begin; });
  if (behind == module.functions.begin()) return;
  const Function& found = *std::prev(behind);
  // Those that an assembler made may not say how long they are.
  if (found.bytes != 0 && place - found.begin >= found.bytes) return;
  origin.function = module.names.c_str() + found.name;
  origin.function_begin = found.begin + loaded.offset;
}

}  // namespace gpupool::internal::os
