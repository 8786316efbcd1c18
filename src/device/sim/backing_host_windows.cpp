// SPDX-License-Identifier: Apache-2.0
// With data: a chunk is a section of the page file, and a mapping is a view of it, which takes the place of
// reserved addresses and gives them back. Windows promises the memory of a section when it is made, so chunks
// need room in the page file whether they are written to or not. Needs Windows 10, version 1803.
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <algorithm>
#include <map>

#include "device/sim/backing.hpp"

#ifndef MEM_RESERVE_PLACEHOLDER
#define MEM_RESERVE_PLACEHOLDER 0x00040000
#define MEM_REPLACE_PLACEHOLDER 0x00004000
#define MEM_COALESCE_PLACEHOLDERS 0x00000001
#define MEM_PRESERVE_PLACEHOLDER 0x00000002
#endif

namespace gpupool::internal {
namespace {

constexpr uint64_t kPage = 4096;

void* pointer(Address address) noexcept {
  return reinterpret_cast<void*>(address);
}

DWORD protection_of(Permission access) noexcept {
  switch (access) {
    case Permission::write: return PAGE_READWRITE;
    case Permission::read: return PAGE_READONLY;
    case Permission::none: break;
  }
  return PAGE_NOACCESS;
}

Status host_failure(const char* what, uint64_t size) noexcept {
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "simulated device: the host cannot %s %llu bytes: error %lu",
              what, static_cast<unsigned long long>(size), GetLastError());
}

/// Functions that compilers' own import libraries lack.
struct Functions {
  // As the Windows SDK declares them; the last two parameters are a list of conditions.
  using Reserve = void*(WINAPI*)(HANDLE, void*, SIZE_T, ULONG, ULONG, void*, ULONG);
  using Map = void*(WINAPI*)(HANDLE, HANDLE, void*, ULONG64, SIZE_T, ULONG, ULONG, void*, ULONG);
  using Unmap = BOOL(WINAPI*)(HANDLE, void*, ULONG);

  Functions() noexcept {
    const HMODULE library = GetModuleHandleA("kernelbase.dll");
    if (library == nullptr) return;
    find(library, "VirtualAlloc2", reserve);
    find(library, "MapViewOfFile3", map);
    find(library, "UnmapViewOfFile2", unmap);
  }
  bool are_there() const noexcept { return reserve != nullptr && map != nullptr && unmap != nullptr; }

  Reserve reserve = nullptr;
  Map map = nullptr;
  Unmap unmap = nullptr;

 private:
  template <class Function>
  static void find(HMODULE library, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(reinterpret_cast<void*>(GetProcAddress(library, name)));
  }
};

/// MEM_EXTENDED_PARAMETER with MEM_ADDRESS_REQUIREMENTS, as the Windows SDK declares them.
struct Alignment {
  explicit Alignment(uint64_t bytes) noexcept
      : requirements{nullptr, nullptr, bytes}, parameter{1, &requirements} {}
  Alignment(const Alignment&) = delete;
  Alignment& operator=(const Alignment&) = delete;

  struct Requirements {
    void* lowest;
    void* highest;
    SIZE_T alignment;
  } requirements;
  struct Parameter {
    ULONG64 type;
    void* requirements;
  } parameter;
};

class HostBacking final : public SimBacking {
 public:
  HostBacking() = default;
  HostBacking(const HostBacking&) = delete;
  HostBacking& operator=(const HostBacking&) = delete;
  ~HostBacking() override {
    while (!sections_.empty()) close(sections_.begin());
  }

  bool has_data() const noexcept override { return true; }

  Status reserve(uint64_t size, uint64_t alignment, Address& base) override {
    constexpr uint64_t kUnit = 65536;  // Windows aligns to that
    Alignment aligned(alignment);
    void* const found = system_.reserve(
        self(), nullptr, align_up(size, kPage), MEM_RESERVE | MEM_RESERVE_PLACEHOLDER, PAGE_NOACCESS,
        alignment > kUnit ? &aligned.parameter : nullptr, alignment > kUnit ? 1 : 0);
    if (found == nullptr) return host_failure("reserve addresses for", size);
    base = reinterpret_cast<Address>(found);
    return kSuccess;
  }

  void release(Address base, uint64_t size) noexcept override {
    size = align_up(size, kPage);
    (void)unmap(base, size);
    for_placeholders(base, size,
                     [](Address piece, uint64_t) { VirtualFree(pointer(piece), 0, MEM_RELEASE); });
  }

  Status create(uint64_t size, uint64_t& offset) override {
    size = align_up(size, kPage);
    const auto high = static_cast<DWORD>(size >> 32);
    const auto section = sections_.emplace(next_offset_, Section{nullptr, size, nullptr}).first;
    section->second.handle = CreateFileMappingW(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE, high,
                                                static_cast<DWORD>(size), nullptr);
    if (section->second.handle == nullptr) {
      const Status status = host_failure("create", size);
      sections_.erase(section);
      return status;
    }
    offset = next_offset_;
    next_offset_ += size;
    return kSuccess;
  }

  void discard(uint64_t offset, uint64_t) noexcept override {
    if (const auto found = sections_.find(offset); found != sections_.end()) close(found);
  }

  Status map(Address address, uint64_t size, uint64_t offset) override {
    size = align_up(size, kPage);
    const auto section = sections_.find(offset);
    const auto view = views_.emplace(address, size).first;
    const bool is_done = section != sections_.end() && make_placeholder(address, size) &&
                         system_.map(section->second.handle, self(), pointer(address), 0, size,
                                     MEM_REPLACE_PLACEHOLDER, PAGE_READWRITE, nullptr, 0) != nullptr;
    if (is_done) return set_access(address, size, Permission::none);
    const Status status = host_failure("map", size);
    views_.erase(view);
    return status;
  }

  Status set_access(Address address, uint64_t size, Permission access) override {
    const Address end = address + size;
    for (auto view = views_.lower_bound(address); view != views_.end() && view->first < end; ++view) {
      DWORD before = 0;
      if (VirtualProtect(pointer(view->first), view->second, protection_of(access), &before) == 0)
        return host_failure("make accessible", size);
    }
    return kSuccess;
  }

  Status unmap(Address address, uint64_t size) override {
    const Address end = address + size;
    for (auto view = views_.lower_bound(address); view != views_.end() && view->first < end;) {
      if (system_.unmap(self(), pointer(view->first), MEM_PRESERVE_PLACEHOLDER) == 0)
        return host_failure("unmap", view->second);
      view = views_.erase(view);
    }
    return kSuccess;
  }

  // There is no fork.

  void copy_for_child() noexcept override {}
  void drop_copy() noexcept override {}
  void become_copy() noexcept override {}
  void map_again(Address, uint64_t, uint64_t, Permission) noexcept override {}

  // The system checks the host's side of a copy, so that a bad pointer is an error and not a crash.

  bool write(uint64_t offset, Address host, uint64_t size) noexcept override {
    return for_windows(offset, size, [&](void* window, uint64_t part) {
      SIZE_T done = 0;
      if (ReadProcessMemory(self(), pointer(host), window, part, &done) == 0 || done != part) return false;
      host += part;
      return true;
    });
  }

  bool read(Address host, uint64_t offset, uint64_t size) noexcept override {
    return for_windows(offset, size, [&](const void* window, uint64_t part) {
      SIZE_T done = 0;
      if (WriteProcessMemory(self(), pointer(host), window, part, &done) == 0 || done != part) return false;
      host += part;
      return true;
    });
  }

 private:
  struct Section {
    HANDLE handle;
    uint64_t size;
    void* window;  // a view for copies, once there was one
  };
  using Sections = std::map<uint64_t, Section>;

  static HANDLE self() noexcept { return GetCurrentProcess(); }

  void close(Sections::iterator section) noexcept {
    if (section->second.window != nullptr) UnmapViewOfFile(section->second.window);
    CloseHandle(section->second.handle);
    sections_.erase(section);
  }

  /// Calls visit(memory, size) for the memory at these offsets, piece by piece, while it says true.
  template <class Visit>
  bool for_windows(uint64_t offset, uint64_t size, Visit&& visit) noexcept {
    while (size != 0) {
      auto found = sections_.upper_bound(offset);
      if (found == sections_.begin()) return false;
      --found;
      if (offset - found->first >= found->second.size) return false;
      Section& section = found->second;
      if (section.window == nullptr)
        section.window = MapViewOfFile(section.handle, FILE_MAP_ALL_ACCESS, 0, 0, 0);
      if (section.window == nullptr) return false;
      const uint64_t skip = offset - found->first;
      const uint64_t part = std::min(size, section.size - skip);
      if (!visit(static_cast<char*>(section.window) + skip, part)) return false;
      offset += part;
      size -= part;
    }
    return true;
  }

  /// Calls visit(address, size) for each placeholder that is in these addresses, whole or in part.
  template <class Visit>
  static void for_placeholders(Address address, uint64_t size, Visit&& visit) noexcept {
    const Address end = address + size;
    while (address < end) {
      MEMORY_BASIC_INFORMATION found{};
      if (VirtualQuery(pointer(address), &found, sizeof found) == 0) return;
      const auto base = reinterpret_cast<Address>(found.AllocationBase);
      const Address next = reinterpret_cast<Address>(found.BaseAddress) + found.RegionSize;
      visit(base, next - base);
      address = next;
    }
  }

  /// Makes one placeholder of these reserved addresses: of parts of one, of several, or of both.
  static bool make_placeholder(Address address, uint64_t size) noexcept {
    Address begin = 0;
    Address end = 0;
    size_t count = 0;
    for_placeholders(address, size, [&](Address piece, uint64_t bytes) {
      if (count++ == 0) begin = piece;
      end = piece + bytes;
    });
    if (count == 0) return false;
    if (count > 1 && VirtualFree(pointer(begin), end - begin, MEM_RELEASE | MEM_COALESCE_PLACEHOLDERS) == 0)
      return false;
    if (begin == address && end == address + size) return true;
    return VirtualFree(pointer(address), size, MEM_RELEASE | MEM_PRESERVE_PLACEHOLDER) != 0;
  }

  const Functions system_;
  Sections sections_;                  // by offset
  std::map<Address, uint64_t> views_;  // and their sizes
  uint64_t next_offset_ = 0;
};

}  // namespace

Status check_host_backing() {
  constexpr SIZE_T kLeast = 65536;
  const Functions system;
  void* const tried = !system.are_there()
                          ? nullptr
                          : system.reserve(GetCurrentProcess(), nullptr, kLeast,
                                           MEM_RESERVE | MEM_RESERVE_PLACEHOLDER, PAGE_NOACCESS, nullptr, 0);
  if (tried == nullptr) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "simulated device: data needs Windows 10, version 1803, or later: GPUPOOL_SIM=data=0 does "
                "without");
  }
  (void)VirtualFree(tried, 0, MEM_RELEASE);
  return kSuccess;
}

std::unique_ptr<SimBacking> make_host_backing() {
  return std::make_unique<HostBacking>();
}

}  // namespace gpupool::internal
