// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: virtual memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fake_state.hpp"

using namespace fake;

namespace {

// Of a file that only its used parts take memory of.
constexpr off_t kFileSize = off_t{1} << 42;

bool is_multiple(uint64_t value) {
  return value != 0 && value % kGranularity == 0;
}

/// Addresses that hold nothing, or 0.
uint64_t reserve(uint64_t size) {
  const uint64_t wanted = size + kGranularity;
  void* memory = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<uint64_t>(memory);
  const uint64_t base = (start + kGranularity - 1) / kGranularity * kGranularity;
  if (base > start) munmap(memory, base - start);
  if (const uint64_t rest = start + wanted - (base + size); rest > 0) munmap(to_memory(base + size), rest);
  return base;
}

/// The reservation that `address` is in; null if it is in none.
const std::pair<const uint64_t, uint64_t>* find_reservation(const State& driver, uint64_t address) {
  auto next = driver.reservations.upper_bound(address);
  if (next == driver.reservations.begin()) return nullptr;
  const auto& found = *--next;
  return address < found.first + found.second ? &found : nullptr;
}

bool is_reserved(const State& driver, uint64_t address, uint64_t size) {
  const auto* found = find_reservation(driver, address);
  return found != nullptr && size <= found->first + found->second - address;
}

bool overlaps_mapping(const State& driver, uint64_t address, uint64_t size) {
  auto next = driver.mappings.lower_bound(address + size);
  if (next == driver.mappings.begin()) return false;
  --next;
  return next->first + next->second.size > address;
}

/// Whether the range is exactly a run of whole neighbouring mappings.
bool is_whole_mappings(const State& driver, uint64_t address, uint64_t size) {
  uint64_t at = address;
  while (at < address + size) {
    const auto found = driver.mappings.find(at);
    if (found == driver.mappings.end()) return false;
    at += found->second.size;
  }
  return size != 0 && at == address + size;
}

int open_file(DeviceState& device) {
  if (device.file < 0) {
    device.file = memfd_create("fake_cuda", MFD_CLOEXEC);
    if (device.file < 0 || ftruncate(device.file, kFileSize) != 0) std::abort();
  }
  return device.file;
}

/// Gives a chunk's memory back when neither its handle nor a mapping holds it any more.
void drop_if_unused(State& driver, std::map<CUmemGenericAllocationHandle, Chunk>::iterator found) {
  const Chunk& chunk = found->second;
  if (!chunk.released || chunk.mappings != 0) return;
  DeviceState& device = driver.devices[chunk.device];
  const auto* addresses = device.keeps_for_addresses ? find_reservation(driver, chunk.last_address) : nullptr;
  if (addresses != nullptr) {
    device.kept[addresses->first] += chunk.size;
  } else if (!chunk.imported) {
    device.used -= chunk.size;
  }
  if (chunk.file >= 0) {
    close(chunk.file);
    driver.chunks.erase(found);
    return;
  }
  fallocate(open_file(device), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(chunk.offset),
            static_cast<off_t>(chunk.size));
  driver.chunks.erase(found);
}

int file_of(State& driver, const Chunk& chunk) {
  return chunk.file >= 0 ? chunk.file : open_file(driver.devices[chunk.device]);
}

/// Moves a chunk to a file of its own, with its contents, wherever it is mapped.
bool give_own_file(State& driver, CUmemGenericAllocationHandle handle, Chunk& chunk) {
  const int file = memfd_create("fake_chunk", MFD_CLOEXEC);
  if (file < 0) return false;
  off_t from = static_cast<off_t>(chunk.offset);
  off_t to = 0;
  bool done = ftruncate(file, static_cast<off_t>(chunk.size)) == 0;
  while (done && to < static_cast<off_t>(chunk.size)) {
    const int old = file_of(driver, chunk);
    done = copy_file_range(old, &from, file, &to, chunk.size - static_cast<size_t>(to), 0) > 0;
  }
  for (const auto& [address, mapping] : driver.mappings) {
    if (!done || mapping.chunk != handle) continue;
    const int protection = mapping.access != 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    done = mmap(to_memory(address), mapping.size, protection, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  if (!done) {
    close(file);
    return false;
  }
  chunk.file = file;
  chunk.offset = 0;
  return true;
}

bool is_valid(const CUmemAllocationProp& properties) {
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.location.id >= 0 &&
         properties.location.id < kDeviceCount && properties.win32HandleMetaData == nullptr &&
         properties.requestedHandleTypes <= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

/// Whether the device can do what the properties ask for.
bool is_supported(const CUmemAllocationProp& properties) {
  auto& attributes = state().devices[properties.location.id].attributes;
  if (attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] == 0) return false;
  if (properties.allocFlags.gpuDirectRDMACapable != 0 &&
      attributes[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED] == 0) {
    return false;
  }
  return properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
         attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] != 0;
}

}  // namespace

bool fake::is_usable(const State& driver, int device, uint64_t address, uint64_t size) {
  const uint64_t end = address + size;
  for (uint64_t at = address; at < end;) {
    const auto* reservation = find_reservation(driver, at);
    if (reservation == nullptr) {
      // Memory of the host or of cuMemAlloc, up to the next reservation.
      const auto next = driver.reservations.upper_bound(at);
      at = next == driver.reservations.end() ? end : next->first;
      continue;
    }
    auto mapping = driver.mappings.upper_bound(at);
    if (mapping == driver.mappings.begin()) return false;
    --mapping;
    const uint64_t mapping_end = mapping->first + mapping->second.size;
    if (at >= mapping_end || (mapping->second.access >> device & 1) == 0) return false;
    at = mapping_end;
  }
  return true;
}

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  FAKE_CALL(kNoCapture);
  if (!is_multiple(size) || alignment > kGranularity || hint != 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t base = reserve(size);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  state().reservations[base] = size;
  *address = base;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  FAKE_CALL(kNoCapture);
  const auto found = state().reservations.find(address);
  if (found == state().reservations.end() || found->second != size) return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_mapping(state(), address, size)) return CUDA_ERROR_INVALID_VALUE;
  munmap(to_memory(address), size);
  for (DeviceState& device : state().devices) {
    if (const auto kept = device.kept.extract(address)) device.used -= kept.mapped();
  }
  state().reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  FAKE_CALL(kNothing);
  if (!is_valid(*properties)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_supported(*properties)) return CUDA_ERROR_NOT_SUPPORTED;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  FAKE_SHOWN(cuMemCreate, handle, size, to_cuptis(properties), flags);
  FAKE_CALL(kNoCapture);
  State& driver = state();
  if (!is_multiple(size) || flags != 0 || !is_valid(*properties)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_supported(*properties)) return CUDA_ERROR_NOT_SUPPORTED;
  DeviceState& device = driver.devices[properties->location.id];
  if (size > device.capacity - std::min(device.capacity, device.used)) return CUDA_ERROR_OUT_OF_MEMORY;
  driver.seen.chunk_handle_type = properties->requestedHandleTypes;
  driver.seen.chunk_rdma = properties->allocFlags.gpuDirectRDMACapable;
  device.used += size;
  *handle = driver.next_chunk++;
  driver.chunks[*handle] = {properties->location.id,         size, device.next_offset, 0, false,
                            properties->requestedHandleTypes};
  device.next_offset += size;
  return shown.says(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  FAKE_SHOWN(cuMemRelease, handle);
  FAKE_CALL(kNoCapture);
  const auto found = state().chunks.find(handle);
  if (found == state().chunks.end() || found->second.released) return CUDA_ERROR_INVALID_VALUE;
  found->second.released = true;
  drop_if_unused(state(), found);
  return shown.says(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  FAKE_CALL(kNoCapture);
  State& driver = state();
  const auto found = driver.chunks.find(handle);
  if (found == driver.chunks.end() || found->second.released || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Chunk& chunk = found->second;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || chunk.handle_type != type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (chunk.file < 0 && !give_own_file(driver, handle, chunk)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int copy = dup(chunk.file);
  if (copy < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(shared) = copy;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared,
                                        CUmemAllocationHandleType type) {
  FAKE_CALL(kContext | kNoCapture);
  State& driver = state();
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(shared));
  struct stat found {};
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(file, &found) != 0 ||
      !is_multiple(static_cast<uint64_t>(found.st_size))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = dup(file);
  if (copy < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = driver.next_chunk++;
  driver.chunks[*handle] = {
      current_context()->device, static_cast<uint64_t>(found.st_size), 0, 0, false, type, copy, true};
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  FAKE_SHOWN(cuMemMap, address, size, offset, handle, flags);
  FAKE_CALL(kNoCapture);
  State& driver = state();
  if (address % kGranularity != 0 || !is_multiple(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto found = driver.chunks.find(handle);
  if (found == driver.chunks.end() || found->second.released) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || size != found->second.size) return CUDA_ERROR_NOT_SUPPORTED;  // as measured: 801
  if (!is_reserved(driver, address, size) || overlaps_mapping(driver, address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* memory = mmap(to_memory(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED,
                      file_of(driver, found->second), static_cast<off_t>(found->second.offset));
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  ++found->second.mappings;
  driver.mappings[address] = {size, handle, 0};
  return shown.says(CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  FAKE_SHOWN(cuMemUnmap, address, size);
  FAKE_CALL(kNoCapture);
  State& driver = state();
  if (!is_whole_mappings(driver, address, size)) return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(to_memory(address), size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  for (auto mapping = driver.mappings.find(address);
       mapping != driver.mappings.end() && mapping->first < address + size;) {
    const auto chunk = driver.chunks.find(mapping->second.chunk);
    --chunk->second.mappings;
    chunk->second.last_address = mapping->first;
    drop_if_unused(driver, chunk);
    mapping = driver.mappings.erase(mapping);
  }
  return shown.says(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* descriptors, size_t count) {
  FAKE_CALL(kNoCapture);
  State& driver = state();
  if (count == 0 || !is_whole_mappings(driver, address, size)) return CUDA_ERROR_INVALID_VALUE;
  uint32_t named = 0;
  uint32_t readers = 0;
  uint32_t writers = 0;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& descriptor = descriptors[i];
    const int id = descriptor.location.id;
    if (descriptor.location.type != CU_MEM_LOCATION_TYPE_DEVICE || id < 0 || id >= kDeviceCount ||
        (named >> id & 1) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    named |= 1u << id;
    if (descriptor.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) writers |= 1u << id;
    if (descriptor.flags == CU_MEM_ACCESS_FLAGS_PROT_READ) readers |= 1u << id;
  }
  const int protection = writers != 0 ? PROT_READ | PROT_WRITE : readers != 0 ? PROT_READ : PROT_NONE;
  if (mprotect(to_memory(address), size, protection) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  for (auto mapping = driver.mappings.find(address);
       mapping != driver.mappings.end() && mapping->first < address + size; ++mapping) {
    mapping->second.access = (mapping->second.access & ~named) | writers;
  }
  driver.seen.access_devices = readers | writers;
  return CUDA_SUCCESS;
}

}  // extern "C"
