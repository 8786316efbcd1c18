// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/compute_sanitizer.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "os/library.hpp"

namespace gpupool::internal {
namespace {

// ---- NVTX, version 3, with its extension for memory: module 1, version 1.2

constexpr uint16_t kNvtxVersion = 3;
constexpr uint16_t kMemoryModule = 1;
constexpr uint16_t kMemoryVersion = 0x0102;
constexpr uint32_t kSubAllocator = 1;      // how a heap is used
constexpr uint32_t kVirtualAddresses = 1;  // what its memory is
constexpr uint32_t kByPointer = 1;         // how a region is named

struct ModuleSegment {
  size_t id;
  size_t slots;
  intptr_t* functions;
};

struct ModuleInfo {
  uint16_t nvtx_version;
  uint16_t struct_size;
  uint16_t module;
  uint16_t module_version;
  size_t segments;
  ModuleSegment* segment;
  void* get_export;
  const void* extra;
};

struct VirtualRange {
  size_t size;
  const void* address;
};

struct HeapDescription {
  uint16_t version;
  uint16_t struct_size;
  uint32_t reserved;
  uint32_t usage;
  uint32_t type;
  size_t range_size;
  const VirtualRange* range;
  uint32_t category;
  uint32_t message_type;
  const void* message;
};

struct RegionsRegistered {
  uint16_t version;
  uint16_t struct_size;
  uint32_t type;
  void* heap;
  size_t count;
  size_t element_size;
  const VirtualRange* elements;
  void** handles;
};

struct RegionsUnregistered {
  uint16_t version;
  uint16_t struct_size;
  uint32_t named_by;
  size_t count;
  size_t element_size;
  const void* const* elements;
};

/// The functions of the extension, which the tool fills in.
class Nvtx {
 public:
  /// Without a tool that wants them, all stay null.
  Nvtx() noexcept {
    void* const tool = find_tool();
    if (tool == nullptr) return;
    using Begin = int(ModuleInfo*);
    auto* const begin = reinterpret_cast<Begin*>(os::find_symbol(tool, "InitializeInjectionNvtxExtension"));
    if (begin == nullptr) return;
    ModuleSegment segment{1, slots_.size(), slots_.data()};
    ModuleInfo info{kNvtxVersion, sizeof(ModuleInfo), kMemoryModule, kMemoryVersion, 1, &segment, nullptr,
                    nullptr};
    if (begin(&info) == 0) slots_ = {};
  }

  bool is_there() const noexcept {
    return slots_[kHeapRegister] != 0 && slots_[kHeapUnregister] != 0 && slots_[kRegister] != 0 &&
           slots_[kUnregister] != 0;
  }

  void* register_heap(const HeapDescription& heap) const noexcept {
    return function<void*(void*, const HeapDescription*)>(kHeapRegister)(nullptr, &heap);
  }
  void unregister_heap(void* heap) const noexcept {
    function<void(void*, void*)>(kHeapUnregister)(nullptr, heap);
  }
  void register_regions(const RegionsRegistered& regions) const noexcept {
    function<void(void*, const RegionsRegistered*)>(kRegister)(nullptr, &regions);
  }
  void unregister_regions(const RegionsUnregistered& regions) const noexcept {
    function<void(void*, const RegionsUnregistered*)>(kUnregister)(nullptr, &regions);
  }

 private:
  enum Slot : size_t { kHeapRegister = 0, kHeapUnregister = 1, kRegister = 3, kUnregister = 5 };

  /// Other tools of NVIDIA's take NVTX too, and only this one checks accesses.
  static void* find_tool() noexcept {
    const char* const path = std::getenv("NVTX_INJECTION64_PATH");
    if (path == nullptr || std::strstr(path, "sanitizer") == nullptr) return nullptr;
    const char* reason = nullptr;
    return os::open_library(path, reason);
  }

  template <typename Signature>
  Signature* function(Slot slot) const noexcept {
    return reinterpret_cast<Signature*>(slots_[slot]);
  }

  std::array<intptr_t, 63> slots_{};
};

/// Found once, or by each of several threads that come first; then it stays.
constinit std::atomic<const Nvtx*> the_nvtx{nullptr};

/// Throws std::bad_alloc the first time.
const Nvtx& nvtx() {
  const Nvtx* known = the_nvtx.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  const Nvtx* const found = new Nvtx;
  if (the_nvtx.compare_exchange_strong(known, found)) return *found;
  delete found;
  return *known;
}

const void* to_pointer(Address address) noexcept {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(address));
}

}  // namespace

bool ComputeSanitizer::is_present() {
  return nvtx().is_there();
}

void ComputeSanitizer::annotate(Address address, uint64_t size, Accessibility accessibility) noexcept {
  if (size == 0) return;
  const std::lock_guard lock(mutex_);
  try {
    switch (accessibility) {
      case Accessibility::closed:
        contains(address) ? close(address, size) : begin_heap(address, size);
        return;
      case Accessibility::freed: close(address, size); return;
      case Accessibility::block: open(address, size); return;
      case Accessibility::open: {
        const auto heap = heaps_.find(address);
        heap != heaps_.end() && heap->second.size == size ? end_heap(heap) : open(address, size);
        return;
      }
    }
  } catch (const std::bad_alloc&) {
    // The tool reports less.
  }
}

bool ComputeSanitizer::contains(Address address) const noexcept {
  auto heap = heaps_.upper_bound(address);
  if (heap == heaps_.begin()) return false;
  --heap;
  return address < heap->first + heap->second.size;
}

void ComputeSanitizer::begin_heap(Address address, uint64_t size) {
  Heap& heap = heaps_[address];
  const VirtualRange range{size, to_pointer(address)};
  heap = {size, nvtx().register_heap({kMemoryVersion, sizeof(HeapDescription), 0, kSubAllocator,
                                      kVirtualAddresses, sizeof range, &range, 0, 0, nullptr})};
}

void ComputeSanitizer::end_heap(std::map<Address, Heap>::iterator heap) noexcept {
  const auto end = regions_.lower_bound(heap->first + heap->second.size);
  for (auto region = regions_.lower_bound(heap->first); region != end;) close_one(region++);
  nvtx().unregister_heap(heap->second.handle);
  heaps_.erase(heap);
}

/// What is open of it already begins anew.
void ComputeSanitizer::open(Address address, uint64_t size) {
  if (const auto known = regions_.find(address); known != regions_.end() && known->second == size) return;
  auto heap = heaps_.upper_bound(address);
  if (heap == heaps_.begin()) return;
  --heap;
  close(address, size);
  regions_[address] = size;
  const VirtualRange range{size, to_pointer(address)};
  nvtx().register_regions({kMemoryVersion, sizeof(RegionsRegistered), kVirtualAddresses, heap->second.handle,
                           1, sizeof range, &range, nullptr});
}

/// A region that reaches into it from before keeps what is before.
void ComputeSanitizer::close(Address address, uint64_t size) {
  auto region = regions_.upper_bound(address);
  if (region != regions_.begin() && std::prev(region)->first + std::prev(region)->second > address) --region;
  while (region != regions_.end() && region->first < address + size) {
    const Address start = region->first;
    close_one(region++);
    if (start < address) open(start, address - start);
  }
}

void ComputeSanitizer::close_one(std::map<Address, uint64_t>::iterator region) noexcept {
  const void* const pointer = to_pointer(region->first);
  nvtx().unregister_regions(
      {kMemoryVersion, sizeof(RegionsUnregistered), kByPointer, 1, sizeof pointer, &pointer});
  regions_.erase(region);
}

}  // namespace gpupool::internal
