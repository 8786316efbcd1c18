// SPDX-License-Identifier: Apache-2.0
#include "fake_compute_sanitizer/fake_compute_sanitizer.hpp"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>

namespace {

ToldMemory told;

void complain(const char* what) {
  if (told.wrong.empty()) told.wrong = what;
}

/// The fields of NVTX's structures, by their offsets on 64-bit systems.
template <typename T>
T field(const void* record, size_t offset) {
  T value{};
  std::memcpy(&value, static_cast<const char*>(record) + offset, sizeof value);
  return value;
}

void check_head(const void* record, size_t size, const char* what) {
  if (field<uint16_t>(record, 0) != 0x0102 || field<uint16_t>(record, 2) != size) complain(what);
}

void* register_heap(void*, const void* heap) {
  check_head(heap, 48, "a heap's version or size");
  if (field<uint32_t>(heap, 8) != 1 || field<uint32_t>(heap, 12) != 1) complain("a heap's use or type");
  if (field<size_t>(heap, 16) != 16) complain("the size of a heap's range");
  const void* const range = field<const void*>(heap, 24);
  const auto size = field<uint64_t>(range, 0);
  const auto address = field<uint64_t>(range, 8);
  const auto after = told.heaps.lower_bound(address);
  if (after != told.heaps.end() && after->first < address + size) complain("a heap overlaps the next");
  if (after != told.heaps.begin() && std::prev(after)->first + std::prev(after)->second > address) {
    complain("a heap overlaps the one before");
  }
  const auto at = told.heaps.emplace(address, size).first;
  return const_cast<uint64_t*>(&at->first);
}

void unregister_heap(void*, void* heap) {
  const uint64_t address = *static_cast<uint64_t*>(heap);
  const uint64_t end = address + told.heaps.at(address);
  const auto region = told.regions.lower_bound(address);
  if (region != told.regions.end() && region->first < end) complain("a heap with regions ends");
  told.heaps.erase(address);
}

void register_regions(void*, const void* batch) {
  check_head(batch, 48, "the version or size of regions");
  const uint64_t heap = *field<uint64_t*>(batch, 8);
  if (field<uint32_t>(batch, 4) != 1 || field<size_t>(batch, 24) != 16) complain("a region's type or size");
  const void* const ranges = field<const void*>(batch, 32);
  for (size_t i = 0; i < field<size_t>(batch, 16); ++i) {
    const auto size = field<uint64_t>(ranges, 16 * i);
    const auto address = field<uint64_t>(ranges, 16 * i + 8);
    if (address < heap || address + size > heap + told.heaps.at(heap))
      complain("a region is not in its heap");
    const auto after = told.regions.lower_bound(address);
    if (after != told.regions.end() && after->first < address + size) complain("a region overlaps the next");
    if (after != told.regions.begin() && std::prev(after)->first + std::prev(after)->second > address) {
      complain("a region overlaps the one before");
    }
    told.regions[address] = size;
  }
}

void unregister_regions(void*, const void* batch) {
  check_head(batch, 32, "the version or size of regions that end");
  if (field<uint32_t>(batch, 4) != 1 || field<size_t>(batch, 16) != 8)
    complain("how regions that end are named");
  const auto* const addresses = field<const uint64_t*>(batch, 24);
  for (size_t i = 0; i < field<size_t>(batch, 8); ++i) {
    if (told.regions.erase(addresses[i]) == 0) complain("a region ends that never began");
  }
}

}  // namespace

const ToldMemory& told_memory() {
  return told;
}

extern "C" int InitializeInjectionNvtxExtension(void* module);

extern "C" int InitializeInjectionNvtxExtension(void* module) {
  const bool is_memory = field<uint16_t>(module, 0) == 3 && field<uint16_t>(module, 4) == 1 &&
                         field<uint16_t>(module, 6) == 0x0102 && field<size_t>(module, 8) == 1;
  if (!is_memory) return 0;
  const void* const segment = field<const void*>(module, 16);
  if (field<size_t>(segment, 8) < 6) return 0;
  auto* const slots = field<intptr_t*>(segment, 16);
  slots[0] = reinterpret_cast<intptr_t>(&register_heap);
  slots[1] = reinterpret_cast<intptr_t>(&unregister_heap);
  slots[3] = reinterpret_cast<intptr_t>(&register_regions);
  slots[5] = reinterpret_cast<intptr_t>(&unregister_regions);
  return 1;
}
